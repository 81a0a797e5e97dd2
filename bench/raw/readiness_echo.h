// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/page_buffer.h"
#include "bench/raw/poller.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <optional>

namespace berth::bench::raw {

inline constexpr std::size_t kReceiveSize = 65'536;

template <class Poller>
class EchoServer {
public:
    EchoServer(EchoJob& job, Poller poller)
        : job_(job), poller_(std::move(poller)), buffer_(kReceiveSize) {}

    Result<void> run() {
        BERTH_TRY(poller_.add(job_.listener, 0, Interest::read));
        while (ended_count_ < job_.connection_count && !failure_) {
            BERTH_TRY(poller_.wait([this](const Ready& ready) {
                if (ready.fd == job_.listener) [[unlikely]] {
                    accept_all();
                } else {
                    echo(ready);
                }
            }));
        }
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    void accept_all() {
        for (int fd; (fd = accept_one(job_.listener)) >= 0;) {
            if (const Result<void> added = poller_.add(fd, 0, Interest::read); !added) {
                failure_ = added.error();
            }
        }
        if (!may_accept_again()) {
            failure_ = last_error("accept").error();
        }
    }

    void echo(const Ready& ready) {
        const std::span<std::byte> buffer = buffer_.bytes();
        ssize_t size = 0;
        do {
            size = ::recv(ready.fd, buffer.data(), buffer.size(), 0);
            if (size <= 0) {
                if (size == 0 || !would_block()) {
                    end(ready.fd);
                }
                return;
            }
            // Where the other side is gone, the next receive says so.
            static_cast<void>(send_all(ready.fd, buffer.first(static_cast<std::size_t>(size))));
        } while (Poller::kIsEdge &&
                 (static_cast<std::size_t>(size) == buffer.size() || ready.has_input_ended));
    }

    void end(int fd) {
        poller_.remove(fd);
        ::close(fd);
        ++ended_count_;
    }

    EchoJob& job_;
    Poller poller_;
    PageBuffer buffer_;
    unsigned ended_count_ = 0;
    std::optional<Error> failure_;
};

}  // namespace berth::bench::raw
