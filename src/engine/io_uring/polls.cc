// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/polls.h"

#include <poll.h>

#include <cerrno>

namespace berth::internal {
namespace {

// What was received or accepted ahead is no longer where the kernel would see it.
bool has_input(const RingSlot& slot, const PollOperation& operation) noexcept {
    const bool has_accepted = slot.accepted != nullptr && slot.accepted->size() > 0;
    return (operation.events & POLLIN) != 0 && (slot.has_received() || has_accepted);
}

}  // namespace

Start Polls::submit(RingSlot& slot, PollOperation& operation) noexcept {
    operation.engine_word = 0;
    if (has_input(slot, operation)) {
        return Core::answer(operation, POLLIN);
    }
    operation.stage = OperationStage::waiting;
    slot.polls.push_back(operation);
    core_.poll(slot, operation, operation.events);
    return Start::pending;
}

void Polls::cancel(RingSlot& slot, Operation& operation) noexcept {
    core_.cancel_waiting(slot, slot.polls, operation);
}

void Polls::cancel_input(RingSlot& slot) noexcept {
    for (Operation* next = slot.polls.front(); next != nullptr; next = next->next) {
        const auto& poll = static_cast<const PollOperation&>(*next);
        if ((poll.events & POLLOUT) == 0 && next->cancel_reason == 0) {
            next->cancel_reason = -ECANCELED;
            core_.cancel(slot, *next);
        }
    }
}

void Polls::on_operation(RingSlot& slot, PollOperation& operation, int result) noexcept {
    if (Core::must_repeat(operation, result)) {
        if (!has_input(slot, operation)) {
            core_.poll(slot, operation, operation.events);
            return;
        }
        result = POLLIN;
    }
    slot.polls.remove(operation);
    core_.finish(operation, (result >= 0 && (result & POLLNVAL) != 0) ? -EBADF : result);
}

}  // namespace berth::internal
