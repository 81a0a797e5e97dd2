// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/raw/poller.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <optional>

namespace berth::bench::raw {

template <class Poller>
class TransferClient {
public:
    TransferClient(TransferJob& job, Poller poller)
        : job_(job), poller_(std::move(poller)), open_count_(job.sockets.size()) {}

    Result<void> run() {
        job_.start();
        for (std::size_t stream = 0; stream < job_.sockets.size(); ++stream) {
            BERTH_TRY(poller_.add(job_.sockets[stream], static_cast<std::uint32_t>(stream),
                                  Interest::read));
        }
        while (open_count_ > 0 && !failure_) {
            BERTH_TRY(poller_.wait([this](const Ready& ready) { receive(ready); }));
        }
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    /// A receive that fills the buffer is followed by another one: that costs less than to be told
    /// once more that there is something.
    void receive(const Ready& ready) {
        constexpr int kMostReceives = 16;  // at a level; then the other streams have their turn
        ssize_t size = 0;
        int count = 0;
        do {
            size = ::recv(ready.fd, job_.buffer.data(), job_.buffer.size(), 0);
            if (size <= 0) {
                end_or_wait(ready.fd, size);
                return;
            }
            job_.received(ready.token, job_.buffer.first(static_cast<std::size_t>(size)));
        } while ((static_cast<std::size_t>(size) == job_.buffer.size() &&
                  (Poller::kIsEdge || ++count < kMostReceives)) ||
                 ready.has_input_ended);
    }

    void end_or_wait(int fd, ssize_t size) {
        if (size < 0 && would_block()) {
            return;
        }
        if (size < 0) {
            failure_ = last_error("receive").error();
        }
        poller_.remove(fd);
        ::close(fd);
        --open_count_;
    }

    TransferJob& job_;
    Poller poller_;
    std::size_t open_count_;
    std::optional<Error> failure_;
};

}  // namespace berth::bench::raw
