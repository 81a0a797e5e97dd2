// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations that coroutines wait for. `co_await stream.receive()` makes an awaiter that is the
// operation itself: it lies in the coroutine's frame, is submitted before the coroutine suspends,
// and a result that is there at once suspends nothing. Any coroutine type can await one; those of
// berth/task.h also pass their TaskContext, by which they are cancelled.

#include <berth/export.h>
#include <berth/loop.h>
#include <berth/operation.h>
#include <berth/task_context.h>

#include <cerrno>
#include <coroutine>
#include <utility>

namespace berth {

namespace internal {

/// Starts `operation` on `slot`; see LoopState::submit(). With an invalid slot, as a socket has
/// that was closed or never opened, the answer is EBADF.
BERTH_API Start submit(LoopState* loop, Operation& operation, SlotHandle slot,
                       Deadline deadline) noexcept;

}  // namespace internal

/// An operation that a coroutine awaits. Op is the operation; what `co_await` gives is the business
/// of the class that derives from this one and adds await_resume().
template <class Op>
class Awaiter : public Op {
public:
    Awaiter(internal::LoopState* loop, internal::SlotHandle on_slot, Deadline deadline) noexcept
        : Op(&Awaiter::resume), deadline_(deadline) {
        this->loop_state = loop;
        this->slot = on_slot;
    }

    bool await_ready() noexcept { return is_cancelled_before() || start() == Start::done; }
    void await_suspend(std::coroutine_handle<> waiter) noexcept {
        waiter_ = waiter;
        if (context_ != nullptr) {
            context_->set_current(this);
        }
    }

    /// Called by promises that have a context, before await_ready().
    void set_context(internal::TaskContext* context) noexcept { context_ = context; }

protected:
    /// The coroutine was cancelled: nothing new is started.
    bool is_cancelled_before() noexcept {
        if (context_ == nullptr || !context_->is_cancelled()) {
            return false;
        }
        this->result = -ECANCELED;
        return true;
    }
    Deadline deadline() const noexcept { return deadline_; }
    Start start() noexcept {
        return internal::submit(this->loop_state, *this, this->slot, deadline_);
    }

private:
    static void resume(Operation& operation) noexcept {
        auto& self = static_cast<Awaiter&>(static_cast<Op&>(operation));
        if (self.context_ != nullptr) {
            self.context_->set_current(nullptr);
        }
        self.waiter_.resume();
    }

    // Frames hold awaiters, and idle connections hold frames: what is here costs each of them.
    Deadline deadline_;
    internal::TaskContext* context_ = nullptr;
    std::coroutine_handle<> waiter_;
};

/// An awaiter whose value is how many bytes, or other things, there were.
template <class Op>
class CountAwaiter final : public Awaiter<Op> {
public:
    /// `set_up(*this)` fills in what the operation needs.
    template <class SetUp>
    CountAwaiter(internal::LoopState* loop, internal::SlotHandle on_slot, Deadline deadline,
                 SetUp set_up) noexcept
        : Awaiter<Op>(loop, on_slot, deadline) {
        set_up(*this);
    }

    Result<std::size_t> await_resume() const noexcept {
        if (this->has_failed()) {
            return std::unexpected(this->error());
        }
        return this->count();
    }
};

/// An awaiter that only succeeds or fails.
template <class Op>
class VoidAwaiter final : public Awaiter<Op> {
public:
    using Awaiter<Op>::Awaiter;

    Result<void> await_resume() const noexcept {
        if (this->has_failed()) {
            return std::unexpected(this->error());
        }
        return {};
    }
};

/// An awaiter whose value is memory of the loop.
class LentAwaiter final : public Awaiter<ReceiveLentOperation> {
public:
    using Awaiter::Awaiter;

    Lent await_resume() noexcept { return has_failed() ? Lent(system_errno()) : std::move(data); }
};

}  // namespace berth
