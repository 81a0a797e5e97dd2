// SPDX-License-Identifier: Apache-2.0
#include <berth/event.h>

#include "src/base/assert.h"
#include "src/engine/operation_list.h"
#include "src/loop/loop_state.h"

#include <algorithm>
#include <new>
#include <type_traits>

namespace berth {
namespace internal {

static_assert(sizeof(OperationList) == 2 * sizeof(void*));
static_assert(alignof(OperationList) == alignof(void*));
static_assert(std::is_trivially_destructible_v<OperationList>);

WaitList::WaitList(Loop& loop) noexcept : loop_(&loop.state()) {
    ::new (list_.data()) OperationList;
}

OperationList& WaitList::list() noexcept {
    return *std::launder(reinterpret_cast<OperationList*>(list_.data()));
}

bool WaitList::is_empty() const noexcept {
    return std::launder(reinterpret_cast<const OperationList*>(list_.data()))->is_empty();
}

Start WaitList::wait(WaitOperation& operation, Deadline deadline) noexcept {
    loop_->start_wait(operation, list(), deadline);
    return Start::pending;
}

Start WaitList::pass(WaitOperation& operation) noexcept {
    BERTH_ASSERT(!operation.is_pending() && "an operation is submitted twice");
    operation.result = 0;
    if (!operation.always_completes) {
        return Start::done;
    }
    loop_->complete_later(operation, 0);
    return Start::pending;
}

void WaitList::wake_first(int result) noexcept {
    loop_->end_wait(static_cast<WaitOperation&>(*list().front()), result);
}

void WaitList::wake_all(int result) noexcept {
    while (!is_empty()) {
        wake_first(result);
    }
}

}  // namespace internal

void Semaphore::release(std::size_t count) noexcept {
    while (count > 0 && !waiting_.is_empty()) {
        waiting_.wake_first(0);
        --count;
    }
    count_ += count;
}

YieldAwaiter::YieldAwaiter(Loop& loop) noexcept
    : Awaiter(&loop.state(), {}, {}), loop_of_turn_(&loop.state()) {}

bool YieldAwaiter::await_ready() noexcept {
    if (is_cancelled_before()) {
        return true;
    }
    loop_of_turn_->complete_later(*this, 0);
    return false;
}

}  // namespace berth
