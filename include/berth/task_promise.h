// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the compiler asks of berth/task.h: the promise in each task's frame, and how one task waits
// for another.

#include <berth/error.h>
#include <berth/export.h>
#include <berth/join.h>
#include <berth/task_context.h>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace berth {

template <class T = void>
class Task;

namespace internal {

/// Memory for a frame, never null. May be freed by another thread.
BERTH_API void* allocate_frame(std::size_t size) noexcept;
BERTH_API void free_frame(void* frame, std::size_t size) noexcept;
/// Ends the program for an exception that is being handled.
[[noreturn]] BERTH_API void end_for_exception() noexcept;
[[noreturn]] BERTH_API void end_for_empty_task() noexcept;
[[noreturn]] BERTH_API void end_for_second_start() noexcept;
[[noreturn]] BERTH_API void end_for_misplaced_promise() noexcept;

/// How a task begins: not yet. It also finds the frames that gcc 12 lays out wrong, before anything
/// is done with one.
class TaskStart {
public:
    explicit TaskStart(const void* promise) noexcept : promise_(promise) {}

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
        if (&self.promise() != promise_) {
            end_for_misplaced_promise();
        }
    }
    void await_resume() const noexcept {}

private:
    const void* promise_;  // where it is, not where it should be
};

/// How a task ends: goes on with who waits for it.
struct TaskEnd {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
        return ended.promise().next();
    }
    void await_resume() const noexcept {}
};

/// An awaiter that lies elsewhere. (Where await_transform() itself answers with a reference, gcc 12
/// moves the awaiter into the frame a second time, and an operation cannot be moved.)
template <class Awaiter>
class AwaiterReference {
public:
    explicit AwaiterReference(Awaiter& awaiter) noexcept : awaiter_(awaiter) {}

    bool await_ready() const { return awaiter_.await_ready(); }
    template <class Promise>
    auto await_suspend(std::coroutine_handle<Promise> waiter) const {
        return awaiter_.await_suspend(waiter);
    }
    decltype(auto) await_resume() const { return awaiter_.await_resume(); }

private:
    Awaiter& awaiter_;
};

class BERTH_API TaskPromiseBase {
public:
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }

    TaskStart initial_suspend() const noexcept { return TaskStart(this); }
    TaskEnd final_suspend() const noexcept { return {}; }
    [[noreturn]] void unhandled_exception() const noexcept { end_for_exception(); }

    template <class Awaitable>
    auto await_transform(Awaitable&& awaitable) const noexcept {
        if constexpr (requires { awaitable.set_context(context_); }) {
            // The analyzer does not see the promise's constructor run in the ramp.
            awaitable.set_context(context_);  // NOLINT(clang-analyzer-core.CallAndMessage)
        }
        if constexpr (requires { std::forward<Awaitable>(awaitable).operator co_await(); }) {
            return std::forward<Awaitable>(awaitable).operator co_await();
        } else if constexpr (requires { operator co_await(std::forward<Awaitable>(awaitable)); }) {
            return operator co_await(std::forward<Awaitable>(awaitable));
        } else {
            return AwaiterReference<std::remove_reference_t<Awaitable>>(awaitable);
        }
    }

    void set_context(TaskContext* context) noexcept { context_ = context; }
    /// Who goes on when the task ends by itself.
    void set_waiter(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
    /// Before the first resume().
    void note_start() noexcept {
        if (waiter_ != nullptr) {
            end_for_second_start();
        }
        waiter_ = std::noop_coroutine();
    }
    /// The same for one of several tasks.
    void note_start(Branch& branch) noexcept {
        note_start();
        context_ = &branch;
        branch_ = &branch;
    }

    /// What to go on with when the task has ended.
    std::coroutine_handle<> next() const noexcept {
        return branch_ == nullptr ? waiter_ : branch_->owner()->end(*branch_);
    }

private:
    TaskContext* context_ = nullptr;
    std::coroutine_handle<> waiter_;  // null: not started
    Branch* branch_ = nullptr;
};

template <class T>
class TaskPromise final : public TaskPromiseBase {
public:
    Task<T> get_return_object() noexcept;

    template <class Value = T>
        requires std::convertible_to<Value&&, T>
    void return_value(Value&& value) noexcept {
        value_.emplace(std::forward<Value>(value));
    }
    T take() noexcept { return std::move(*value_); }

private:
    std::optional<T> value_;
};

template <>
class TaskPromise<void> final : public TaskPromiseBase {
public:
    Task<void> get_return_object() noexcept;

    void return_void() const noexcept {}
    void take() const noexcept {}
};

/// Not the owner of the frame, and so without a destructor that could run twice.
template <class T>
class TaskAwaiter {
public:
    explicit TaskAwaiter(std::coroutine_handle<TaskPromise<T>> task) noexcept : task_(task) {}

    /// The task runs here, not by symmetric transfer, which costs stack where it is compiled to no
    /// tail call (gcc below -O2, sanitizers).
    bool await_ready() const noexcept {
        task_.promise().note_start();
        task_.resume();
        return task_.done();
    }
    void await_suspend(std::coroutine_handle<> waiter) const noexcept {
        task_.promise().set_waiter(waiter);
    }
    T await_resume() const noexcept { return task_.promise().take(); }

private:
    std::coroutine_handle<TaskPromise<T>> task_;
};

/// T, for what keeps values: std::monostate stands for void.
template <class T>
using ValueOf = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<Result<T>> = true;

/// A Result for what may fail otherwise too: T when that is a Result itself.
template <class T>
using ResultOf = std::conditional_t<is_result<T>, T, Result<T>>;

struct TaskAccess;

}  // namespace internal

}  // namespace berth
