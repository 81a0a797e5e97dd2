// SPDX-License-Identifier: Apache-2.0
#pragma once

// Timers of a loop. A million of them cost no more each than one (see src/loop/timer_wheel.h). A
// timer fires at its deadline at the earliest and less than a millisecond later, on an idle loop;
// one that is less than a millisecond away fires to the resolution of the clock.
//
// Loop thread only. A timer must go before its loop does.

#include <berth/awaitable.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace berth {

/// Completes once, with success at its deadline or with `cancelled`.
class BERTH_API TimerOperation : public Operation {
public:
    explicit TimerOperation(Completion completion) noexcept
        : Operation(OperationKind::timer, completion) {}

    /// Must not be pending. `kNoDeadline` never fires, but can be cancelled.
    void start(Loop& loop, Deadline deadline) noexcept { start(&loop.state(), deadline); }
    /// Moves the deadline, whether the timer is pending or not. Moving it further away, as an idle
    /// timeout does with every message, costs next to nothing.
    void restart(Loop& loop, Deadline deadline) noexcept { restart(&loop.state(), deadline); }

    void start(internal::LoopState* loop, Deadline deadline) noexcept;
    void restart(internal::LoopState* loop, Deadline deadline) noexcept;

    /// Ends it without its completion. Harmless when it is not pending.
    void stop() noexcept { end(); }

protected:
    /// A whole number of periods after the last deadline, and after now.
    void start_next(internal::LoopState* loop, std::chrono::nanoseconds period) noexcept;
};

/// Calls `callable()` once or periodically. Stopping it calls nothing.
template <class Callable>
class Timer final : private TimerOperation {
public:
    Timer(Loop& loop, Callable callable)
        : TimerOperation(&Timer::fire), loop_(&loop.state()), callable_(std::move(callable)) {}
    ~Timer() { stop(); }

    /// Fires once, at `deadline`; an earlier start is forgotten.
    void start(Deadline deadline) noexcept {
        period_ = {};
        restart(loop_, deadline);
    }
    /// Fires every `period`, at least 1 ms, counted from now; what a slow callable or a stopped
    /// process missed is left out.
    void start_every(std::chrono::nanoseconds period) noexcept {
        period_ = std::max<std::chrono::nanoseconds>(period, std::chrono::milliseconds(1));
        restart(loop_, within(period_));
    }
    void stop() noexcept {
        period_ = {};
        end();
    }
    bool is_running() const noexcept { return is_pending(); }
    /// Whether Loop::run() goes on for this timer alone; yes, unless told otherwise. While it is
    /// stopped.
    void set_keeps_alive(bool on) noexcept { keeps_alive = on; }

private:
    static void fire(Operation& operation) noexcept {
        auto& self = static_cast<Timer&>(operation);
        if (self.has_failed()) {
            return;  // the loop has ended
        }
        if (self.period_.count() != 0) {
            self.start_next(self.loop_, self.period_);
        }
        self.callable_();
    }
    internal::LoopState* loop_;
    std::chrono::nanoseconds period_{0};
    Callable callable_;
};

class SleepAwaiter final : public Awaiter<TimerOperation> {
public:
    using Awaiter::Awaiter;

    /// **Errors:** cancelled.
    Result<void> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return {};
    }
};

/// `co_await berth::sleep(loop, within(5s))`
inline SleepAwaiter sleep(Loop& loop, Deadline deadline) noexcept {
    return {&loop.state(), {}, deadline};
}

}  // namespace berth
