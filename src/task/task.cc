// SPDX-License-Identifier: Apache-2.0
#include <berth/task.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace berth::internal {

void end_for_exception() noexcept {
    try {
        throw;
    } catch (const std::exception& exception) {
        std::fprintf(stderr, "berth: an exception has left a task: %s\n", exception.what());
    } catch (...) {
        std::fputs("berth: an exception has left a task, and it is no std::exception\n", stderr);
    }
    std::abort();
}

void end_for_empty_task() noexcept {
    std::fputs("berth: a task is awaited that is empty, or was moved from\n", stderr);
    std::abort();
}

void end_for_second_start() noexcept {
    std::fputs("berth: a task is awaited a second time\n", stderr);
    std::abort();
}

void end_for_misplaced_promise() noexcept {
    std::fputs(
        "berth: a task is compiled wrong: gcc 12 misplaces the frame of a function that has "
        "co_await in a condition and no local variable; give it one\n",
        stderr);
    std::abort();
}

void BlockingTask::ended(Branch& branch) noexcept {
    auto& self = static_cast<BlockingTask&>(branch);
    if (self.is_running_) {
        self.loop_.stop();
    }
}

// Who stops the loop wants it to return soon: the task is cancelled, and ends first. After an error
// it gets the same chance, once.
Result<void> BlockingTask::run() {
    is_running_ = true;
    while (join_.size() != 0) {
        Result<void> outcome = loop_.run_until(kNoDeadline);
        if (!outcome && is_cancelled()) {
            return outcome;
        }
        join_.cancel();
    }
    return {};
}

}  // namespace berth::internal
