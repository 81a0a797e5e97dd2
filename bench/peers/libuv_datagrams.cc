// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/page_buffer.h"
#include "bench/peers/duplicate.h"
#include "bench/peers/libuv_loop.h"

#include <vector>

namespace berth::bench::libuv {
namespace {

// libuv gives each datagram of a recvmmsg() a piece of this size, and takes 20 in one call.
constexpr std::size_t kLargestDatagram = 65'536;
constexpr std::size_t kLibraryBatch = 20;

Result<void> open(Loop& loop, uv_udp_t& socket, const DatagramsJob& job, unsigned flags) {
    Descriptor copy = BERTH_TRY(duplicate(job.socket));
    BERTH_TRY(check("make a uv_udp_t", ::uv_udp_init_ex(loop.get(), &socket, flags)));
    BERTH_TRY(check("open a uv_udp_t", ::uv_udp_open(&socket, copy.get())));
    static_cast<void>(copy.release());  // libuv closes it.
    return {};
}

class Receiver {
public:
    Receiver(DatagramsJob& job, Loop loop)
        : job_(job),
          is_batched_(job.mode == DatagramMode::batched),
          buffer_(is_batched_ ? kLibraryBatch * kLargestDatagram : kLargestDatagram),
          loop_(std::move(loop)) {}

    Result<void> run() {
        BERTH_TRY(
            open(loop_, socket_, job_, is_batched_ ? UV_UDP_RECVMMSG | AF_UNSPEC : AF_UNSPEC));
        socket_.data = this;
        job_.start();
        BERTH_TRY(check("receive", ::uv_udp_recv_start(&socket_, on_alloc, on_received)));
        return loop_.run();
    }

private:
    static void on_alloc(uv_handle_t* socket, std::size_t, uv_buf_t* buffer) noexcept {
        *buffer = buffer_of(static_cast<Receiver*>(socket->data)->buffer_.bytes());
    }
    static void on_received(uv_udp_t* socket, ssize_t size, const uv_buf_t* buffer,
                            const sockaddr* sender, unsigned) noexcept {
        auto& receiver = *static_cast<Receiver*>(socket->data);
        if (size < 0) {
            receiver.loop_.fail("receive", static_cast<int>(size));
        } else if (sender != nullptr && !receiver.job_.received(bytes_of(*buffer, size))) {
            // No sender: nothing is left, or the buffer is given back.
            ::uv_udp_recv_stop(socket);
            receiver.loop_.stop();
        }
    }

    DatagramsJob& job_;
    bool is_batched_;
    PageBuffer buffer_;
    uv_udp_t socket_{};
    Loop loop_;  // last: its handles outlive it
};

// One in each call: tried at once, and only what the socket does not take is queued.
class SingleSender {
public:
    SingleSender(DatagramsJob& job, Loop loop)
        : job_(job), datagram_(job.datagram_size), loop_(std::move(loop)) {}

    Result<void> run() {
        BERTH_TRY(open(loop_, socket_, job_, AF_UNSPEC));
        socket_.data = this;
        job_.start();
        send_until_full();
        return loop_.run();
    }

private:
    static void on_sent(uv_udp_send_t* sending, int status) noexcept {
        auto& sender = *static_cast<SingleSender*>(sending->handle->data);
        if (status < 0) {
            sender.loop_.fail("send", status);
        } else {
            sender.send_until_full();
        }
    }

    void send_until_full() {
        const uv_buf_t data = buffer_of(datagram_);
        int code = 0;
        while (code >= 0 && job_.fill(datagram_.data())) {
            code = ::uv_udp_try_send(&socket_, &data, 1, nullptr);
        }
        if (code == UV_EAGAIN) {
            code = ::uv_udp_send(&sending_, &socket_, &data, 1, nullptr, on_sent);
        }
        if (code < 0) {
            loop_.fail("send", code);
        }
    }

    DatagramsJob& job_;
    std::vector<std::byte> datagram_;
    uv_udp_send_t sending_{};
    uv_udp_t socket_{};
    Loop loop_;  // last: its handles outlive it
};

// Queued, which libuv sends with sendmmsg().
class BatchSender {
public:
    BatchSender(DatagramsJob& job, Loop loop)
        : job_(job), sendings_(kQueuedCount), loop_(std::move(loop)) {}

    Result<void> run() {
        BERTH_TRY(open(loop_, socket_, job_, AF_UNSPEC));
        job_.start();
        for (Sending& sending : sendings_) {
            sending.sender = this;
            sending.datagram.resize(job_.datagram_size);
            send_next(sending);
        }
        return loop_.run();
    }

private:
    // A whole number of its calls, and as near to the others' batch as that allows.
    static constexpr std::size_t kQueuedCount = kDatagramBatch / kLibraryBatch * kLibraryBatch;

    struct Sending {
        uv_udp_send_t request{};
        std::vector<std::byte> datagram;
        BatchSender* sender = nullptr;
    };

    static void on_sent(uv_udp_send_t* request, int status) noexcept {
        Sending& sending = *static_cast<Sending*>(request->data);
        if (status < 0 && status != UV_ECANCELED) {
            sending.sender->loop_.fail("send", status);
        } else if (status == 0) {
            sending.sender->send_next(sending);
        }
    }

    void send_next(Sending& sending) {
        if (!job_.fill(sending.datagram.data())) {
            if (++idle_count_ == sendings_.size()) {
                loop_.stop();
            }
            return;
        }
        sending.request.data = &sending;
        const uv_buf_t data = buffer_of(sending.datagram);
        const int code = ::uv_udp_send(&sending.request, &socket_, &data, 1, nullptr, on_sent);
        if (code < 0) {
            loop_.fail("send", code);
        }
    }

    DatagramsJob& job_;
    std::vector<Sending> sendings_;
    std::size_t idle_count_ = 0;
    uv_udp_t socket_{};
    Loop loop_;  // last: its handles outlive it
};

}  // namespace

Result<void> datagrams(DatagramsJob& job) {
    if (job.mode == DatagramMode::segmented) {
        return std::unexpected(Error(Errc::unsupported, "send and receive segments", {}, 0,
                                     "libuv does not show control messages"));
    }
    Loop loop = BERTH_TRY(Loop::open());
    if (!job.is_sender) {
        return Receiver(job, std::move(loop)).run();
    }
    return job.mode == DatagramMode::single ? SingleSender(job, std::move(loop)).run()
                                            : BatchSender(job, std::move(loop)).run();
}

}  // namespace berth::bench::libuv
