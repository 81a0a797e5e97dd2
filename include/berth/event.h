// SPDX-License-Identifier: Apache-2.0
#pragma once

// Waiting for what happens inside the loop's own thread: an Event that is set, a Semaphore that has
// one left, the next iteration. First come, first served; each wait can have a deadline and be
// cancelled; nothing is allocated. As with sockets there are two forms of each, with a
// WaitOperation of the caller's and with `co_await`.
//
// Loop thread only: from others, Loop::post() what sets an event. An event or semaphore that goes
// cancels the waits for it, and it goes before its loop does.

#include <berth/awaitable.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace berth {

namespace internal {

/// Who waits for the same thing.
class BERTH_API WaitList {
public:
    explicit WaitList(Loop& loop) noexcept;
    WaitList(const WaitList&) = delete;
    WaitList& operator=(const WaitList&) = delete;
    ~WaitList() { wake_all(-ECANCELED); }

    bool is_empty() const noexcept;
    Start wait(WaitOperation& operation, Deadline deadline) noexcept;
    /// There is nothing to wait for.
    Start pass(WaitOperation& operation) noexcept;
    /// Not of an empty list.
    void wake_first(int result) noexcept;
    void wake_all(int result) noexcept;

private:
    OperationList& list() noexcept;

    LoopState* loop_;
    alignas(void*) std::array<std::byte, 2 * sizeof(void*)> list_;
};

}  // namespace internal

/// Waits until `Source::start(operation, deadline)` has come true.
template <class Source>
class [[nodiscard]] WaitAwaiter final : public Awaiter<WaitOperation> {
public:
    WaitAwaiter(Source& source, Deadline deadline) noexcept
        : Awaiter(nullptr, {}, deadline), source_(source) {}

    bool await_ready() noexcept {
        return is_cancelled_before() || source_.start(*this, deadline()) == Start::done;
    }
    Result<void> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return {};
    }

private:
    Source& source_;
};

/// Something that is the case, or not yet.
class BERTH_API Event {
public:
    explicit Event(Loop& loop) noexcept : waiting_(loop) {}

    bool is_set() const noexcept { return is_set_; }
    /// All that wait now go on in the next iteration, even if it is reset before.
    void set() noexcept {
        is_set_ = true;
        waiting_.wake_all(0);
    }
    void reset() noexcept { is_set_ = false; }

    /// Completes when it is set, at once when it is already. **Errors:** cancelled, timed_out.
    Start wait(WaitOperation& operation, Deadline deadline = {}) noexcept {
        return is_set_ ? waiting_.pass(operation) : waiting_.wait(operation, deadline);
    }
    WaitAwaiter<Event> wait(Deadline deadline = {}) noexcept { return {*this, deadline}; }

private:
    friend class WaitAwaiter<Event>;
    Start start(WaitOperation& operation, Deadline deadline) noexcept {
        return wait(operation, deadline);
    }

    internal::WaitList waiting_;
    bool is_set_ = false;
};

/// So many of something, to be taken and given back.
class BERTH_API Semaphore {
public:
    Semaphore(Loop& loop, std::size_t count) noexcept : waiting_(loop), count_(count) {}

    /// How many are left.
    std::size_t count() const noexcept { return count_; }
    /// One, if that needs no waiting.
    bool try_acquire() noexcept {
        if (count_ == 0) {
            return false;
        }
        --count_;
        return true;
    }
    /// Completes when one is had; only then it must be released. **Errors:** cancelled, timed_out.
    Start acquire(WaitOperation& operation, Deadline deadline = {}) noexcept {
        return try_acquire() ? waiting_.pass(operation) : waiting_.wait(operation, deadline);
    }
    WaitAwaiter<Semaphore> acquire(Deadline deadline = {}) noexcept { return {*this, deadline}; }
    /// Who has waited longest gets one, in the next iteration.
    void release(std::size_t count = 1) noexcept;

private:
    friend class WaitAwaiter<Semaphore>;
    Start start(WaitOperation& operation, Deadline deadline) noexcept {
        return acquire(operation, deadline);
    }

    internal::WaitList waiting_;
    std::size_t count_;  // 0 while anybody waits
};

class BERTH_API YieldAwaiter final : public Awaiter<WaitOperation> {
public:
    explicit YieldAwaiter(Loop& loop) noexcept;

    bool await_ready() noexcept;
    Result<void> await_resume() const noexcept {
        if (has_failed()) {
            return std::unexpected(error());
        }
        return {};
    }

private:
    internal::LoopState* loop_of_turn_;
};

/// `co_await berth::yield(loop)` lets everything else run and goes on in the next iteration,
/// without sleeping. **Errors:** cancelled.
inline YieldAwaiter yield(Loop& loop) noexcept { return YieldAwaiter(loop); }

}  // namespace berth
