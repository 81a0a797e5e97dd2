// SPDX-License-Identifier: Apache-2.0
#pragma once

// A Worker in a forked process, driven request by request, so that several can take turns.

#include "bench/connect/worker.h"

#include <berth/descriptor.h>

#include <sys/types.h>

namespace berth::bench {

namespace internal {
struct WorkerRequest;
}  // namespace internal

class WorkerProcess {
public:
    static Result<WorkerProcess> start(const WorkerSetup& setup);
    WorkerProcess(WorkerProcess&& other) noexcept
        : setup_(std::move(other.setup_)),
          channel_(std::move(other.channel_)),
          process_(std::exchange(other.process_, 0)),
          is_answering_(other.is_answering_) {}
    WorkerProcess& operator=(WorkerProcess&&) = delete;
    /// Waits until all its connections are gone; kills it first when it is still at work.
    ~WorkerProcess();

    const WorkerSetup& setup() const noexcept { return setup_; }

    // As in Worker. **Errors:** also interrupted, when Ctrl-C came while waiting, and system when
    // the process has died.
    Result<void> fill_to(unsigned port_count);
    Result<Batch> measure(std::size_t allocator_index);
    Result<Exhaustion> exhaust();

private:
    WorkerProcess(WorkerSetup setup, Descriptor channel, pid_t process)
        : setup_(std::move(setup)), channel_(std::move(channel)), process_(process) {}

    Result<Exhaustion> ask(const internal::WorkerRequest& request);

    WorkerSetup setup_;
    Descriptor channel_;
    pid_t process_;
    bool is_answering_ = false;
};

}  // namespace berth::bench
