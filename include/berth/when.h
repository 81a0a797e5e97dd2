// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several tasks at a time, and tasks against the clock. What these give is a Task again, so they
// nest, and a cancellation passes through them. All tasks have ended when one of these does, those
// that were cancelled too: nothing goes on behind its back, and no value is lost.
//
// Loop thread only. **Cost:** one frame more; of a vector also one allocation.

#include <berth/error.h>
#include <berth/export.h>
#include <berth/join.h>
#include <berth/loop.h>
#include <berth/task.h>
#include <berth/timer.h>

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace berth {

/// What when_any() gives.
template <class Values>
struct Race {
    Race(std::size_t first_index, Values of_all) noexcept
        : index(first_index), values(std::move(of_all)) {}

    std::size_t index;  ///< Of the task that ended first.
    /// Of all tasks: one that was cancelled may have succeeded all the same.
    Values values;
};

namespace internal {

/// A join that the first branch to end cancels.
class BERTH_API RaceJoin : public Join {
public:
    class Racer : public Branch {
    public:
        Racer() noexcept : Branch(&RaceJoin::ended) {}
    };

    /// Where in `racers` the winner is.
    std::size_t index_in(std::span<const Racer> racers) const noexcept {
        return static_cast<std::size_t>(winner_ - racers.data());
    }

private:
    static void ended(Branch& branch) noexcept;

    const Racer* winner_ = nullptr;
};

/// A deadline that cancels a join.
class BERTH_API TimeLimit final : private TimerOperation {
public:
    explicit TimeLimit(Join& join) noexcept : TimerOperation(&TimeLimit::pass), join_(join) {}
    ~TimeLimit() { end(); }

    void start(Loop& loop, Deadline deadline) noexcept;
    void stop() noexcept { end(); }
    bool has_passed() const noexcept { return has_passed_; }
    static Error error() noexcept { return {Errc::timed_out, "run", "task"}; }

private:
    static void pass(Operation& operation) noexcept;

    Join& join_;
    bool has_passed_ = false;
};

template <class T>
std::vector<ValueOf<T>> take_all(std::vector<Task<T>>& tasks) {
    std::vector<ValueOf<T>> values;
    values.reserve(tasks.size());
    for (Task<T>& task : tasks) {
        values.push_back(TaskAccess::take(task));
    }
    return values;
}

template <class... Ts>
std::tuple<ValueOf<Ts>...> take_all(std::tuple<Task<Ts>...>& tasks) {
    return std::apply(
        [](auto&... task) { return std::tuple<ValueOf<Ts>...>{TaskAccess::take(task)...}; }, tasks);
}

template <class... Ts, class Branches>
void start_all(Join& join, Branches& branches, std::tuple<Task<Ts>...>& tasks) noexcept {
    std::size_t index = 0;
    std::apply([&](auto&... task) { (TaskAccess::start(join, branches[index++], task), ...); },
               tasks);
}

template <class T, class Branches>
void start_all(Join& join, Branches& branches, std::vector<Task<T>>& tasks) noexcept {
    for (std::size_t index = 0; index < tasks.size(); ++index) {
        TaskAccess::start(join, branches[index], tasks[index]);
    }
}

}  // namespace internal

/// Runs all of them; `std::monostate` stands for the value of a Task<void>.
template <class... Ts>
Task<std::tuple<internal::ValueOf<Ts>...>> when_all(Task<Ts>... tasks) {
    internal::Join join;
    std::array<internal::Branch, sizeof...(Ts)> branches;
    std::tuple<Task<Ts>...> owned(std::move(tasks)...);
    join.enter(co_await internal::ContextOfCaller());
    internal::start_all(join, branches, owned);
    co_await join;
    co_return internal::take_all(owned);
}

template <class T>
Task<std::vector<internal::ValueOf<T>>> when_all(std::vector<Task<T>> tasks) {
    internal::Join join;
    std::vector<internal::Branch> branches(tasks.size());
    std::vector<Task<T>> owned = std::move(tasks);
    join.enter(co_await internal::ContextOfCaller());
    internal::start_all(join, branches, owned);
    co_await join;
    co_return internal::take_all(owned);
}

/// Runs all of them until one has ended, then cancels the others. They are started in order: when
/// one ends without waiting, those behind it start cancelled.
template <class... Ts>
    requires(sizeof...(Ts) > 0)
Task<Race<std::tuple<internal::ValueOf<Ts>...>>> when_any(Task<Ts>... tasks) {
    internal::RaceJoin join;
    std::array<internal::RaceJoin::Racer, sizeof...(Ts)> racers;
    std::tuple<Task<Ts>...> owned(std::move(tasks)...);
    join.enter(co_await internal::ContextOfCaller());
    internal::start_all(join, racers, owned);
    co_await join;
    co_return Race(join.index_in(racers), internal::take_all(owned));
}

/// At least one task.
template <class T>
Task<Race<std::vector<internal::ValueOf<T>>>> when_any(std::vector<Task<T>> tasks) {
    internal::RaceJoin join;
    std::vector<internal::RaceJoin::Racer> racers(tasks.size());
    std::vector<Task<T>> owned = std::move(tasks);
    join.enter(co_await internal::ContextOfCaller());
    internal::start_all(join, racers, owned);
    co_await join;
    co_return Race(join.index_in(racers), internal::take_all(owned));
}

/// Runs `task`, and cancels it at `deadline`, which counts from when this is awaited. Gives a
/// Result<T>, or T itself when that is a Result. A task that has succeeded all the same has
/// succeeded, as far as its T can tell: with a T that is no Result, a deadline that has passed is
/// always an error.
/// **Errors:** timed_out; those of the task.
template <class T>
Task<internal::ResultOf<T>> with_timeout(Loop& loop, Deadline deadline, Task<T> task) {
    internal::Join join;
    internal::Branch branch;
    internal::TimeLimit limit(join);
    Task<T> owned = std::move(task);
    join.enter(co_await internal::ContextOfCaller());
    limit.start(loop, deadline);
    internal::TaskAccess::start(join, branch, owned);
    co_await join;
    limit.stop();
    if constexpr (internal::is_result<T>) {
        T value = internal::TaskAccess::take(owned);
        if (!value && value.error().code() == Errc::cancelled && limit.has_passed()) {
            value = std::unexpected(internal::TimeLimit::error());
        }
        co_return std::move(value);
    } else {
        if (limit.has_passed()) {
            co_return std::unexpected(internal::TimeLimit::error());
        }
        if constexpr (std::is_void_v<T>) {
            co_return {};
        } else {
            co_return internal::TaskAccess::take(owned);
        }
    }
}

}  // namespace berth
