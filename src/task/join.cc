// SPDX-License-Identifier: Apache-2.0
#include <berth/join.h>

#include "src/base/assert.h"

#include <berth/task.h>

#include <utility>

namespace berth::internal {

void TaskContext::cancel() noexcept {
    if (is_cancelled_) {
        return;
    }
    is_cancelled_ = true;
    if (current_ != nullptr) {
        current_->cancel();
    }
    if (join_ != nullptr) {
        join_->cancel();
    }
}

void Join::start(Branch& branch, TaskPromiseBase& promise, std::coroutine_handle<> task) noexcept {
    branch.owner_ = this;
    branch.next_ = nullptr;
    branch.previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = &branch;
    last_ = &branch;
    ++size_;
    if (is_cancelled_) {
        branch.cancel();
    }
    promise.note_start(branch);
    task.resume();
}

std::coroutine_handle<> Join::end(Branch& branch) noexcept {
    (branch.previous_ != nullptr ? branch.previous_->next_ : first_) = branch.next_;
    (branch.next_ != nullptr ? branch.next_->previous_ : last_) = branch.previous_;
    --size_;
    if (branch.ended_ != nullptr) {
        branch.ended_(branch);
    }
    if (size_ != 0 || waiter_ == nullptr) {
        return std::noop_coroutine();
    }
    leave();
    return std::exchange(waiter_, nullptr);
}

// Completions run from the loop, so no branch ends and none comes meanwhile.
void Join::cancel() noexcept {
    is_cancelled_ = true;
    for (Branch* branch = first_; branch != nullptr; branch = branch->next_) {
        branch->cancel();
    }
}

void Join::enter(TaskContext* above) noexcept {
    BERTH_ASSERT(above_ == nullptr && waiter_ == nullptr && "a scope is joined twice at a time");
    above_ = above;
    if (above == nullptr) {
        return;
    }
    above->set_join(this);
    if (above->is_cancelled()) {
        cancel();
    }
}

void Join::await_suspend(std::coroutine_handle<> waiter) noexcept {
    BERTH_ASSERT(waiter_ == nullptr && "a scope is joined twice at a time");
    waiter_ = waiter;
}

}  // namespace berth::internal
