// SPDX-License-Identifier: Apache-2.0
#pragma once

// libev: an ev_io for each descriptor, started once, and receive and send as system calls.

#include "bench/programs/program.h"

#include <ev.h>

#include <memory>
#include <optional>

namespace berth::bench::libev {

/// A struct ev_loop and why it was stopped.
class Loop {
public:
    /// `backend` is one of EVBACKEND_*.
    static Result<Loop> open(unsigned backend);

    struct ev_loop* get() const noexcept { return loop_.get(); }

    using Callback = void (*)(struct ev_loop* loop, ev_io* watcher, int events);
    /// Initializes and starts. The watcher must stay where it is until it is stopped or the loop is
    /// gone.
    void start(ev_io& watcher, int fd, int events, Callback callback, void* data) noexcept {
        ev_io_init(&watcher, callback, fd, events);
        watcher.data = data;
        ::ev_io_start(get(), &watcher);
    }

    /// Until no watcher is left, or until stop() or fail() in a callback.
    Result<void> run();
    void stop() noexcept { ::ev_break(get(), EVBREAK_ALL); }
    void fail(const Error& error) noexcept {
        failure_ = error;
        stop();
    }

private:
    struct Destroy {
        void operator()(struct ev_loop* loop) const noexcept { ::ev_loop_destroy(loop); }
    };
    explicit Loop(struct ev_loop* loop) noexcept : loop_(loop) {}

    std::unique_ptr<struct ev_loop, Destroy> loop_;
    std::optional<Error> failure_;
};

Result<void> transfer(TransferJob& job, Loop loop);
Result<void> echo(EchoJob& job, Loop loop);
Result<void> churn(ChurnJob& job, Loop loop);
Result<void> datagrams(DatagramsJob& job, Loop loop);
Result<void> wake(WakeJob& job, Loop loop);

}  // namespace berth::bench::libev
