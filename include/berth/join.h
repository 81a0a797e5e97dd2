// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tasks that run side by side, and the one coroutine that waits until all of them have ended: what
// Scope (berth/scope.h), when_all() and their like (berth/when.h) have in common.
//
//     context of the waiting chain ──▶ Join ──▶ Branch ─▶ Branch ─▶ Branch    each the context of
//                                                 │         │         │       a chain of its own
//                                                task      task      task

#include <berth/export.h>
#include <berth/task_context.h>

#include <coroutine>
#include <cstddef>

namespace berth::internal {

class TaskPromiseBase;

/// One of the tasks. It belongs to whoever starts it and stays until it has ended.
class Branch : public TaskContext {
public:
    /// Called when the task has ended and counts no more. It may free the task and the branch.
    using Ended = void (*)(Branch& branch) noexcept;

    explicit Branch(Ended ended = nullptr) noexcept : ended_(ended) {}
    ~Branch() = default;

    Join* owner() const noexcept { return owner_; }

private:
    friend class Join;

    Join* owner_ = nullptr;
    Branch* next_ = nullptr;
    Branch* previous_ = nullptr;
    Ended ended_;
};

/// Awaitable: `co_await join` goes on when no branch is left.
class BERTH_API Join {
public:
    Join() noexcept = default;
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;
    ~Join() { leave(); }

    /// Runs `task` until it waits for something, or ends.
    void start(Branch& branch, TaskPromiseBase& promise, std::coroutine_handle<> task) noexcept;
    /// Cancels the branches, and those still to come.
    void cancel() noexcept;
    bool is_cancelled() const noexcept { return is_cancelled_; }
    std::size_t size() const noexcept { return size_; }

    /// From now on until all branches have ended, cancelling `above` cancels them. May be null.
    void enter(TaskContext* above) noexcept;

    bool await_ready() noexcept {
        if (size_ != 0) {
            return false;
        }
        leave();
        return true;
    }
    void await_suspend(std::coroutine_handle<> waiter) noexcept;
    void await_resume() const noexcept {}

    /// The task of `branch` has ended. Answers what to go on with.
    std::coroutine_handle<> end(Branch& branch) noexcept;

private:
    void leave() noexcept {
        if (above_ != nullptr) {
            above_->set_join(nullptr);
            above_ = nullptr;
        }
    }

    Branch* first_ = nullptr;  // in the order they were started
    Branch* last_ = nullptr;
    std::size_t size_ = 0;
    TaskContext* above_ = nullptr;
    std::coroutine_handle<> waiter_;
    bool is_cancelled_ = false;
};

/// `co_await ContextOfCaller()` is the context of the coroutine that says so.
class ContextOfCaller {
public:
    void set_context(TaskContext* context) noexcept { context_ = context; }
    bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    TaskContext* await_resume() const noexcept { return context_; }

private:
    TaskContext* context_ = nullptr;
};

}  // namespace berth::internal
