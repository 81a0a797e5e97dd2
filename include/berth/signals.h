// SPDX-License-Identifier: Apache-2.0
#pragma once

// Signals as values of the loop, instead of handlers that interrupt it. A watch blocks its signals
// in the thread that opens it and reads them from a signalfd; when it goes it unblocks what it has
// blocked, and a signal that is pending then takes its usual course.
//
// A blocked signal goes to any thread that has not blocked it: open the watch before other threads
// are started, which inherit the mask. (Processes that ChildProcess starts do not.) One watch of a
// signal at a time in a process: with two, each would get only some of them.
//
// A signal that comes again before it was taken is one signal; only realtime signals are counted.
// Nothing is taken while nobody waits.
//
// Loop thread only. A watch goes before its loop.
//
// Source: signalfd(2), signal(7).

#include <berth/awaitable.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <sys/types.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace berth {

namespace internal {
class SignalQueue;
}

struct Signal {
    int number = 0;        ///< SIGTERM, …
    int code = 0;          ///< SI_USER, SI_QUEUE, SI_KERNEL, CLD_EXITED, …: sigaction(2).
    pid_t sender_pid = 0;  ///< Of SIGCHLD the child; 0 from the kernel.
    uid_t sender_uid = 0;
    int value = 0;  ///< What sigqueue() sent along.
};

/// Waits for one signal.
class BERTH_API SignalOperation : public WaitOperation {
public:
    explicit SignalOperation(Completion completion) noexcept : WaitOperation(completion) {}

    Signal signal;
};

class SignalAwaiter;

class BERTH_API SignalWatch {
public:
    SignalWatch() noexcept;
    /// Blocks `signals` in this thread. SIGKILL and SIGSTOP cannot be had; SIGSEGV, SIGBUS, SIGFPE
    /// and SIGILL are not taken, for they kill the thread that causes them all the same.
    /// **Errors:** invalid_argument (such a signal, none at all, or one that another watch has),
    /// descriptors_exhausted, out_of_memory.
    static Result<SignalWatch> open(Loop& loop, std::span<const int> signals);
    static Result<SignalWatch> open(Loop& loop, std::initializer_list<int> signals) {
        return open(loop, std::span(signals.begin(), signals.size()));
    }

    SignalWatch(SignalWatch&&) noexcept;
    SignalWatch& operator=(SignalWatch&&) noexcept;
    /// As close().
    ~SignalWatch();

    bool is_open() const noexcept { return queue_ != nullptr; }

    /// Completes with the next signal. Several waits take turns. **Errors:** timed_out, cancelled,
    /// invalid_argument (closed).
    Start wait(SignalOperation& operation, Deadline deadline = {}) noexcept;
    /// `Result<Signal> signal = co_await watch.next();`
    SignalAwaiter next(Deadline deadline = {}) noexcept;

    /// Cancels its operations and unblocks the signals.
    void close() noexcept;

private:
    friend class SignalAwaiter;

    explicit SignalWatch(std::unique_ptr<internal::SignalQueue> queue) noexcept;

    std::unique_ptr<internal::SignalQueue> queue_;
};

class BERTH_API SignalAwaiter final : public Awaiter<SignalOperation> {
public:
    SignalAwaiter(SignalWatch& watch, Deadline deadline) noexcept
        : Awaiter(nullptr, {}, deadline), watch_(watch) {}

    bool await_ready() noexcept {
        return is_cancelled_before() || watch_.wait(*this, deadline()) == Start::done;
    }
    Result<Signal> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(Error::from_errno(system_errno(), "wait for", "signal"));
        }
        return signal;
    }

private:
    SignalWatch& watch_;
};

inline SignalAwaiter SignalWatch::next(Deadline deadline) noexcept { return {*this, deadline}; }

}  // namespace berth
