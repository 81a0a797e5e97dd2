// SPDX-License-Identifier: Apache-2.0
#pragma once

// How coroutines are cancelled. Coroutines that wait for each other are a chain; a chain does one
// thing at a time, and its context knows which: it runs, it waits for an operation, or it waits for
// other chains that run side by side below it. Cancelling a context ends that wait early and marks
// the context, so that no later operation of the chain starts. Nothing runs inside cancel(): what
// was cancelled completes from the loop, with a result that says `cancelled`.
//
// Loop thread only.

#include <berth/export.h>
#include <berth/operation.h>

namespace berth::internal {

class Join;

/// What a chain of coroutines is doing now. The contexts of berth/task.h derive from it.
class BERTH_API TaskContext {
public:
    TaskContext() noexcept = default;
    TaskContext(const TaskContext&) = delete;
    TaskContext& operator=(const TaskContext&) = delete;

    bool is_cancelled() const noexcept { return is_cancelled_; }
    /// The operation at the end of the chain; null while it runs.
    void set_current(Operation* operation) noexcept { current_ = operation; }
    Operation* current() const noexcept { return current_; }
    /// The chains that this one waits for; null when there are none.
    void set_join(Join* join) noexcept { join_ = join; }

    /// For good. Harmless when repeated.
    void cancel() noexcept;

protected:
    ~TaskContext() = default;

private:
    Operation* current_ = nullptr;
    Join* join_ = nullptr;
    bool is_cancelled_ = false;
};

}  // namespace berth::internal
