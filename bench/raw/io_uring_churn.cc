// SPDX-License-Identifier: Apache-2.0
// connect() and close() as submissions, batched; socket() stays a system call. With a port table
// the connect is the table's, and io_uring waits for its end.
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/ring.h"
#include "bench/raw/sockets.h"

#include <poll.h>
#include <unistd.h>

#include <optional>

namespace berth::bench::raw {
namespace {

constexpr std::uint8_t kConnect = 1;
constexpr std::uint8_t kPoll = 2;
constexpr std::uint8_t kClose = 3;

class RingChurnClient {
public:
    RingChurnClient(ChurnJob& job, Ring ring)
        : job_(job), ring_(std::move(ring)), ports_(job.parallel_count) {}

    Result<void> run() {
        job_.start();
        for (unsigned slot = 0; slot < job_.parallel_count; ++slot) {
            start_next(slot);
        }
        while (under_way_count_ > 0 && !failure_) {
            BERTH_TRY(ring_.submit_and_wait());
            ring_.for_each_completion([this](const io_uring_cqe& completion) {
                if (kind_of(completion) != kClose) {
                    settle(completion);
                }
            });
        }
        BERTH_TRY(ring_.submit());
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    void start_next(unsigned slot) {
        bool is_under_way = false;
        while (!is_under_way && started_count_ < job_.connection_count && !failure_) {
            ++started_count_;
            is_under_way = job_.ports != nullptr ? start_with_table(slot) : start(slot);
        }
        under_way_count_ += is_under_way ? 1 : 0;
    }

    bool start(unsigned slot) {
        const Result<int> socket = open_churn_socket();
        if (!socket) {
            failure_ = socket.error();
            return false;
        }
        io_uring_sqe* const submission = ring_.next();
        ::io_uring_prep_connect(submission, *socket, job_.destination.data(),
                                job_.destination.size());
        submission->user_data = tag(kConnect, *socket, slot);
        return true;
    }

    bool start_with_table(unsigned slot) {
        Result<StartedConnect> started = start_connect(job_);
        if (!started) {
            failure_ = started.error();
            return false;
        }
        if (started->system_errno != 0) {
            ::close(started->socket);
            job_.failed(started->system_errno);
            return false;
        }
        ports_[slot] = std::move(started->port);
        io_uring_sqe* const submission = ring_.next();
        ::io_uring_prep_poll_add(submission, started->socket, POLLOUT);
        submission->user_data = tag(kPoll, started->socket, slot);
        return true;
    }

    void settle(const io_uring_cqe& completion) {
        const int fd = fd_of(completion);
        const unsigned slot = extra_of(completion);
        int error = completion.res < 0 ? -completion.res : 0;
        if (kind_of(completion) == kPoll) {
            error = (completion.res & (POLLERR | POLLHUP)) != 0 ? connect_result(fd) : error;
            // The port is free only when the socket is closed.
            ::close(fd);
            ports_[slot].release();
        } else {
            close_later(fd);
        }
        --under_way_count_;
        if (error == 0) {
            job_.connected();
        } else {
            job_.failed(error);
        }
        start_next(slot);
    }

    void close_later(int fd) {
        io_uring_sqe* const submission = ring_.next();
        ::io_uring_prep_close(submission, fd);
        submission->flags = static_cast<std::uint8_t>(submission->flags | IOSQE_CQE_SKIP_SUCCESS);
        submission->user_data = tag(kClose, fd);
    }

    ChurnJob& job_;
    Ring ring_;
    std::vector<Port> ports_;  // index = slot
    unsigned started_count_ = 0;
    unsigned under_way_count_ = 0;
    std::optional<Error> failure_;
};

}  // namespace

Result<void> io_uring_churn(ChurnJob& job) {
    return RingChurnClient(job, BERTH_TRY(Ring::open(512, 4'096))).run();
}

}  // namespace berth::bench::raw
