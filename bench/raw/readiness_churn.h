// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/raw/poller.h"
#include "bench/raw/sockets.h"

#include <unistd.h>

#include <optional>
#include <vector>

namespace berth::bench::raw {

template <class Poller>
class ChurnClient {
public:
    ChurnClient(ChurnJob& job, Poller poller)
        : job_(job), poller_(std::move(poller)), ports_(job.parallel_count) {}

    Result<void> run() {
        job_.start();
        for (std::uint32_t slot = 0; slot < job_.parallel_count; ++slot) {
            start_next(slot);
        }
        while (under_way_count_ > 0 && !failure_) {
            BERTH_TRY(poller_.wait([this](const Ready& ready) { settle(ready); }));
        }
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

private:
    /// Tries until one is under way or none is left.
    void start_next(std::uint32_t slot) {
        while (started_count_ < job_.connection_count && !failure_) {
            ++started_count_;
            Result<StartedConnect> started = start_connect(job_);
            if (!started) {
                failure_ = started.error();
            } else if (started->system_errno != 0) {
                ::close(started->socket);
                job_.failed(started->system_errno);
            } else {
                watch(slot, *started);
                return;
            }
        }
    }

    void watch(std::uint32_t slot, StartedConnect& started) {
        ports_[slot] = std::move(started.port);
        ++under_way_count_;
        if (const Result<void> added = poller_.add(started.socket, slot, Interest::write); !added) {
            failure_ = added.error();
        }
    }

    void settle(const Ready& ready) {
        const int error = ready.may_have_failed ? connect_result(ready.fd) : 0;
        poller_.remove(ready.fd);
        ::close(ready.fd);
        ports_[ready.token].release();
        --under_way_count_;
        if (error == 0) {
            job_.connected();
        } else {
            job_.failed(error);
        }
        start_next(ready.token);
    }

    ChurnJob& job_;
    Poller poller_;
    std::vector<Port> ports_;  // index = slot
    unsigned started_count_ = 0;
    unsigned under_way_count_ = 0;
    std::optional<Error> failure_;
};

}  // namespace berth::bench::raw
