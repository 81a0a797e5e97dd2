// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tasks that run side by side and belong to somebody who waits for them.
//
// Loop thread only.

#include <berth/export.h>
#include <berth/join.h>
#include <berth/task.h>

#include <cstddef>

namespace berth {

/// Owns tasks that run side by side:
///
///     berth::Scope clients;
///     while (auto client = co_await listener.accept()) clients.spawn(echo(std::move(*client)));
///     co_await clients.join();
///
/// The frame of a task that has ended is freed at once. A scope is empty before it goes: in a
/// program without coroutines, `berth::block_on(loop, scope.join())`.
class BERTH_API Scope {
public:
    Scope() noexcept = default;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

    /// Runs `task` until it waits for the first time, and the rest from the loop. In a scope that
    /// was cancelled it runs too, but none of its operations start.
    void spawn(Task<void> task) noexcept;
    /// Cancels all tasks, and those that are spawned later.
    void cancel() noexcept { join_.cancel(); }
    bool is_cancelled() const noexcept { return join_.is_cancelled(); }
    /// Tasks that have not ended.
    std::size_t size() const noexcept { return join_.size(); }
    /// Ends when no task is left; a cancelled one has ended, with all it waited for. Being
    /// cancelled itself, or started by a chain that was, it cancels the scope. One at a time.
    Task<void> join();

private:
    internal::Join join_;
};

}  // namespace berth
