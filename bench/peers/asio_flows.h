// SPDX-License-Identifier: Apache-2.0
#pragma once

// The jobs over UDP, and the one that is woken.

#include "bench/harness/page_buffer.h"
#include "bench/peers/asio_context.h"
#include "bench/peers/duplicate.h"
#include "bench/peers/post_stack.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <vector>

namespace berth::bench::asio {

// Either side of a flow. It waits only when the socket has nothing or takes nothing more: an
// operation for each datagram costs as much again as its system call.
class Flow {
public:
    explicit Flow(DatagramsJob& job)
        : job_(job), context_(kOneThread), socket_(context_.get()), buffer_(kLargestDatagram) {}

    Result<void> run() {
        Descriptor copy = BERTH_TRY(duplicate(job_.socket));
        socket_.assign(Udp::v4(), copy.get());
        static_cast<void>(copy.release());  // Asio closes it.
        socket_.non_blocking(true);
        job_.start();
        proceed();
        return context_.run();
    }

private:
    static constexpr std::size_t kLargestDatagram = 65'536;

    void proceed() {
        if (job_.is_sender) {
            send_until_full();
        } else {
            drain();
        }
    }

    void drain() {
        const std::span<std::byte> place = buffer_.bytes();
        ErrorCode code;
        for (;;) {
            const auto size = socket_.receive(net::buffer(place.data(), place.size()), 0, code);
            if (code) {
                wait_or_fail(UdpSocket::wait_read, "receive", code);
                return;
            }
            if (!job_.received(place.first(size))) {
                return;
            }
        }
    }

    void send_until_full() {
        ErrorCode code;
        const auto datagram = buffer_.bytes().first(job_.datagram_size);
        while (is_filled_ || job_.fill(datagram.data())) {
            is_filled_ = true;
            socket_.send(net::buffer(datagram.data(), datagram.size()), 0, code);
            if (code) {
                wait_or_fail(UdpSocket::wait_write, "send", code);
                return;
            }
            is_filled_ = false;
        }
    }

    void wait_or_fail(UdpSocket::wait_type what, const char* operation, const ErrorCode& code) {
        if (code != net::error::would_block) {
            context_.fail(operation, code);
            return;
        }
        socket_.async_wait(what, [this](const ErrorCode& failure) {
            if (failure) {
                context_.fail("wait", failure);
            } else {
                proceed();
            }
        });
    }

    DatagramsJob& job_;
    Context context_;
    UdpSocket socket_;
    PageBuffer buffer_;
    bool is_filled_ = false;  // with a datagram that the socket did not take
};

class WakeLoop {
public:
    explicit WakeLoop(WakeJob& job) : job_(job), context_(kOneThreadRuns) {}

    Result<void> run() {
        const net::executor_work_guard<Executor> stays_open(context_.get().get_executor());
        job_.start(post, this);
        const Result<void> result = context_.run();
        job_.join();
        return result;
    }

private:
    static void post(void* self, Posted& item) {
        auto& loop = *static_cast<WakeLoop*>(self);
        if (loop.stack_.push(item)) {
            net::post(loop.context_.get(), [&loop] { loop.deliver(); });
        }
    }

    void deliver() {
        if (!stack_.deliver(job_)) {
            context_.stop();
        }
    }

    WakeJob& job_;
    Context context_;
    PostStack stack_;
};

}  // namespace berth::bench::asio
