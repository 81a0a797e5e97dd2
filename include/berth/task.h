// SPDX-License-Identifier: Apache-2.0
#pragma once

// Coroutines. A Task<T> is a function that may wait, written as if it did not:
//
//     berth::Task<void> echo(berth::Stream client) {
//         while (berth::Lent data = co_await client.receive()) {
//             if (!co_await client.send(std::move(data))) break;
//         }
//     }
//
// It is lazy: calling it makes it, `co_await` runs it, once. It runs in its caller until it has to
// wait, so awaiting one that ends without waiting is a function call; no stack grows however many
// of them a loop awaits. Tasks that are to run side by side belong to a Scope (berth/scope.h), or
// to when_all() and its like (berth/when.h): there is no task that nobody waits for, and none
// outlives what it uses.
//
// Cancelling is a value, never an exception. It reaches a task through whoever awaits it, down to
// the operation that is being waited for, which completes with `cancelled` as soon as the kernel
// has let go of its memory; every operation that the task starts after that is cancelled before it
// begins. The task itself goes on to its end, so it must take such an error for one: a loop that
// tries again whatever comes never ends.
//
// Loop thread only. The library throws nothing; an exception that leaves a task ends the program.
//
// Write a task as a function with parameters by value: they live in its frame. Not so the captures
// of a lambda, which go with the closure: `[&] { co_await … }()` outlives them at its first wait.
//
// Two mistakes of gcc 12 to know of. What is written inside a `co_await` expression and is a
// closure with captures, or an aggregate with a member that is not trivially destructible, is
// destroyed twice: give it a name before. And a function that has `co_await` in the condition of an
// `if`, a loop or a `switch`, but no local variable anywhere, gets a broken frame. Any local
// variable mends it, such as the condition's value; berth finds such a frame when the task is made,
// and ends the program with a message that says so.
//
// **Cost:** a frame comes from a list of used ones that the thread keeps (up to 1 MiB of each
// size), not from malloc(). Without memory for a frame the program ends: a Task<T> has no value
// that could say so.

#include <berth/error.h>
#include <berth/export.h>
#include <berth/join.h>
#include <berth/loop.h>
#include <berth/task_context.h>
#include <berth/task_promise.h>

#include <coroutine>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace berth {

/// Move-only. T is void or a type that can be moved.
template <class T>
class [[nodiscard]] Task {
public:
    using promise_type = internal::TaskPromise<T>;  // NOLINT(readability-identifier-naming)
    static_assert(!std::is_reference_v<T>, "a task's value is a value");

    /// Not to be awaited.
    Task() noexcept = default;
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        if (this != &other) {
            destroy();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    /// Ends what a task that has not ended is waiting for, at once.
    ~Task() { destroy(); }

    explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

    /// `co_await std::move(task)`, once.
    internal::TaskAwaiter<T> operator co_await() && noexcept {
        if (!handle_) {
            internal::end_for_empty_task();
        }
        return internal::TaskAwaiter<T>(handle_);
    }
    void operator co_await() & = delete;

    /// Called by the promise of the coroutine that awaits it.
    void set_context(internal::TaskContext* context) noexcept {
        if (handle_) {
            handle_.promise().set_context(context);
        }
    }

private:
    friend promise_type;
    friend struct internal::TaskAccess;

    explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    void destroy() noexcept {
        if (handle_) {
            std::exchange(handle_, nullptr).destroy();
        }
    }

    std::coroutine_handle<promise_type> handle_;
};

/// Runs the loop until the task has ended, and gives its value: a Result<T>, or T itself when that
/// is a Result. Loop::stop() cancels the task; it ends all the same before this returns. Not from
/// within a task or a completion.
/// **Errors:** those of Loop::run(), which the task does not survive.
template <class T>
internal::ResultOf<T> block_on(Loop& loop, Task<T> task);

namespace internal {

/// What berth itself may do with any task.
struct TaskAccess {
    template <class T>
    static void start(Join& join, Branch& branch, Task<T>& task) noexcept {
        if (!task.handle_) {
            end_for_empty_task();
        }
        join.start(branch, task.handle_.promise(), task.handle_);
    }
    /// Of one that has ended.
    template <class T>
    static ValueOf<T> take(Task<T>& task) noexcept {
        if constexpr (std::is_void_v<T>) {
            return {};
        } else {
            return task.handle_.promise().take();
        }
    }
};

/// The task of block_on().
class BERTH_API BlockingTask final : public Branch {
public:
    explicit BlockingTask(Loop& loop) noexcept : Branch(&BlockingTask::ended), loop_(loop) {}

    Join& join() noexcept { return join_; }
    /// Until the task has ended.
    Result<void> run();

private:
    static void ended(Branch& branch) noexcept;

    Loop& loop_;
    Join join_;
    bool is_running_ = false;
};

template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
    return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

inline Task<void> TaskPromise<void>::get_return_object() noexcept {
    return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

}  // namespace internal

template <class T>
internal::ResultOf<T> block_on(Loop& loop, Task<T> task) {
    internal::BlockingTask blocking(loop);
    Task<T> owned = std::move(task);  // goes before what its chain refers to
    internal::TaskAccess::start(blocking.join(), blocking, owned);
    BERTH_TRY(blocking.run());
    if constexpr (std::is_void_v<T>) {
        return {};
    } else {
        return internal::TaskAccess::take(owned);
    }
}

}  // namespace berth
