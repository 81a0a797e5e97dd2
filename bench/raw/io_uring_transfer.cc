// SPDX-License-Identifier: Apache-2.0
// Multishot polls, and plain receives into one buffer that stays in the cache. Multishot receives
// into provided buffers take fewer system calls but more time (1.1 times it over 100 connections,
// 1.3 times over 900): each lands in another buffer.
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/ring.h"
#include "bench/raw/sockets.h"

#include <poll.h>
#include <unistd.h>

#include <optional>

namespace berth::bench::raw {
namespace {

constexpr std::uint64_t kRemoved = ~std::uint64_t{0};

class RingTransferClient {
public:
    RingTransferClient(TransferJob& job, Ring ring)
        : job_(job),
          ring_(std::move(ring)),
          open_count_(job.sockets.size()),
          is_open_(job.sockets.size(), true) {}

    Result<void> run() {
        job_.start();
        for (unsigned stream = 0; stream < job_.sockets.size(); ++stream) {
            watch(stream);
        }
        while (open_count_ > 0 && !failure_) {
            BERTH_TRY(ring_.submit_and_wait());
            ring_.for_each_completion([this](const io_uring_cqe& completion) {
                if (completion.user_data != kRemoved) {
                    settle(completion);
                }
            });
        }
        BERTH_TRY(ring_.submit());
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    void watch(unsigned stream) {
        io_uring_sqe* const submission = ring_.next();
        ::io_uring_prep_poll_multishot(submission, job_.sockets[stream], POLLIN | POLLRDHUP);
        submission->user_data = stream;
    }

    void settle(const io_uring_cqe& completion) {
        const auto stream = static_cast<unsigned>(completion.user_data);
        if (!is_open_[stream]) {
            return;  // came while its poll was being removed
        }
        if (completion.res > 0) {
            const bool has_input_ended = (completion.res & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
            receive(stream, has_input_ended);
        }
        if (is_open_[stream] && !has_more(completion)) {
            watch(stream);
        }
    }

    /// A poll tells of changes: what is there must be read until a short receive, and to its end
    /// when that has come.
    void receive(unsigned stream, bool has_input_ended) {
        ssize_t size = 0;
        do {
            size =
                ::recv(job_.sockets[stream], job_.buffer.data(), job_.buffer.size(), MSG_DONTWAIT);
            if (size <= 0) {
                end_or_wait(stream, size);
                return;
            }
            job_.received(stream, job_.buffer.first(static_cast<std::size_t>(size)));
        } while (static_cast<std::size_t>(size) == job_.buffer.size() || has_input_ended);
    }

    void end_or_wait(unsigned stream, ssize_t size) {
        if (size < 0 && would_block()) {
            return;
        }
        if (size < 0) {
            failure_ = last_error("receive").error();
        }
        // A poll that is under way keeps the socket open after its close().
        io_uring_sqe* const submission = ring_.next();
        ::io_uring_prep_poll_remove(submission, stream);
        submission->flags = static_cast<std::uint8_t>(submission->flags | IOSQE_CQE_SKIP_SUCCESS);
        submission->user_data = kRemoved;
        ::close(job_.sockets[stream]);
        is_open_[stream] = false;
        --open_count_;
    }

    TransferJob& job_;
    Ring ring_;
    std::size_t open_count_;
    std::vector<bool> is_open_;  // index = stream
    std::optional<Error> failure_;
};

}  // namespace

Result<void> io_uring_transfer(TransferJob& job) {
    return RingTransferClient(job, BERTH_TRY(Ring::open(1'024, 16'384))).run();
}

}  // namespace berth::bench::raw
