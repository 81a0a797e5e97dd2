// SPDX-License-Identifier: Apache-2.0

// Streams that move much. A receive is tried when its completion is about to run, as in the
// readiness engines and for the same reason; but what was submitted to be sent goes before it, or
// a relay would hold all that it can read.

#include "src/engine/attempt.h"
#include "src/engine/broken_stream.h"
#include "src/engine/io_uring/receiver.h"

#include <poll.h>

#include <cerrno>

namespace berth::internal {

// True: `operation`, the head, has gone to be tried.
bool Receiver::start_bulk(RingSlot& slot, Operation& operation) noexcept {
    if (slot.is_likely_empty) {
        io_uring_sqe& entry = core_.request(slot, RequestTag::receive, IORING_OP_POLL_ADD);
        entry.poll32_events = poll_mask(POLLIN);
        slot.is_receiving = true;
        slot.is_receive_poll = true;
        return false;
    }
    if (core_.has_unsent) {
        if (!slot.is_postponed) {
            slot.is_postponed = true;
            postponed_.push_back(slot.handle());
        }
        return false;
    }
    slot.reads.remove(operation);
    slot.has_untried = true;
    core_.ready.push_untried(operation);
    return true;
}

void Receiver::resume_postponed() noexcept {
    looked_at_.swap(postponed_);
    for (const SlotHandle handle : looked_at_) {
        RingSlot* slot = core_.slots.find(handle);
        if (slot != nullptr && !slot->is_detached) {
            slot->is_postponed = false;
            advance(*slot);
        }
    }
    looked_at_.clear();
}

int Receiver::receive_bulk(RingSlot& slot, Operation& operation) noexcept {
    int result = attempt(operation, slot.fd, core_.lent);
    if (slot.lost_errno != 0 && is_end_of_stream(operation, result)) [[unlikely]] {
        result = -slot.lost_errno;
        static_cast<ReceiveLentOperation&>(operation).data = Lent(slot.lost_errno);
    }
    if (result == 0 || (result < 0 && result != -EAGAIN)) {
        return result;
    }
    const std::size_t size = result < 0 ? 0 : static_cast<std::size_t>(result);
    slot.is_likely_empty = size < LentPool::kRoom;
    if (size > BufferPool::kSmallSize) {
        slot.short_run = 0;
    } else if (size > 0 && ++slot.short_run > RingSlot::kMostShortRun) {
        slot.short_run = 0;
        slot.prefers_large = false;
    }
    return result;
}

bool Receiver::attempt_now(RingSlot& slot, Operation& operation) noexcept {
    slot.has_untried = false;
    if (slot.is_untried_over && operation.cancel_reason == 0) {
        operation.cancel_reason = -ECANCELED;
    }
    slot.is_untried_over = false;
    int result = receive_bulk(slot, operation);
    if (result == -EAGAIN && operation.cancel_reason == 0) {
        operation.stage = OperationStage::waiting;
        slot.reads.push_front(operation);
        advance(slot);
        return false;
    }
    if (result == -EAGAIN) {
        result = operation.cancel_reason;
        static_cast<ReceiveLentOperation&>(operation).data = Lent(-result);
    }
    operation.result = result;
    advance(slot);
    return true;
}

void Receiver::forget_untried(RingSlot& slot) noexcept {
    slot.has_untried = false;
    slot.is_untried_over = false;
    advance(slot);
}

// An error of the poll is that of the receive.
void Receiver::on_readable(RingSlot& slot, int result) noexcept {
    if (result != -ECANCELED && result != -EINTR) {
        slot.is_likely_empty = false;
    }
    advance(slot);
}

}  // namespace berth::internal
