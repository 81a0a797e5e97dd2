// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/sender.h"

#include "src/engine/attempt.h"
#include "src/engine/broken_stream.h"
#include "src/engine/io_uring/send_parts.h"

#include <cerrno>

namespace berth::internal {
namespace {

bool is_datagram_send(const RingSlot& slot, const Operation& operation) noexcept {
    return operation.kind == OperationKind::send_to ||
           (operation.kind == OperationKind::send && !is_stream(slot.kind));
}

}  // namespace

Start Sender::submit(RingSlot& slot, Operation& operation) noexcept {
    operation.engine_word = 0;
    if (slot.is_write_broken && is_stream_write(operation)) {
        return Core::answer(operation, -EPIPE);
    }
    // A system call sends a datagram for less than a request does, and several for less still.
    const bool sends_datagrams =
        is_datagram_send(slot, operation) || operation.kind == OperationKind::send_batch;
    if (sends_datagrams && slot.writes.is_empty()) {
        const int result = attempt(operation, slot.fd, core_.lent);
        if (result != -EAGAIN) {
            return Core::answer(operation, result);
        }
    }
    operation.stage = OperationStage::waiting;
    slot.writes.push_back(operation);
    mark(slot);
    return Start::pending;
}

void Sender::mark(RingSlot& slot) noexcept {
    if (!slot.is_dirty && !slot.is_sending) {
        slot.is_dirty = true;
        core_.has_unsent = true;
        dirty_.push_back(slot.handle());
    }
}

void Sender::remove(RingSlot& slot, Operation& operation, int result) noexcept {
    const bool is_lost = has_sent_in_part(operation) || operation.cancel_reason == 0;
    const bool of_stream = is_stream(slot.kind) && is_stream_write(operation);
    if (result < 0 && is_lost && of_stream) {
        slot.is_write_broken = true;
    }
    if (of_stream && is_loss(-result)) {
        slot.lost_errno = static_cast<std::uint8_t>(-result);
    }
    slot.writes.remove(operation);
    core_.finish(operation, result);
}

void Sender::cancel(RingSlot& slot, Operation& operation) noexcept {
    if ((operation.engine_word & kInBatch) != 0) {
        if (!slot.is_ending_send) {
            core_.cancel(slot, RequestTag::send);
        }
    } else if ((operation.engine_word & kInFlight) != 0) {
        core_.cancel(slot, operation);
    } else {
        remove(slot, operation, operation.cancel_reason);
        mark(slot);
    }
}

void Sender::before_wait() noexcept {
    scratch_.rewind(core_.ring);
    // These began since the last wait(), when what was before them had been sent. Whoever waits for
    // the last byte, to close the socket or to write on, did so then and has not said it again.
    has_waiting_user_ = has_waiting_user_ || !silent_.empty();
    core_.has_unsent = false;
    looked_at_.swap(dirty_);
    for (const SlotHandle handle : looked_at_) {
        RingSlot* slot = core_.slots.find(handle);
        if (slot != nullptr && !slot->is_detached) {
            slot->is_dirty = false;
            start(*slot);
        }
    }
    looked_at_.clear();
}

// The head starts, and while it ends at once, the next.
void Sender::start(RingSlot& slot) noexcept {
    while (!slot.writes.is_empty() && !slot.is_sending && !slot.is_detached) {
        Operation& head = *slot.writes.front();
        if ((head.engine_word & kInFlight) != 0 || !start_head(slot, head)) {
            return;
        }
    }
}

// True: the head has ended.
bool Sender::start_head(RingSlot& slot, Operation& operation) noexcept {
    if (slot.is_write_broken && is_stream_write(operation)) {
        slot.writes.remove(operation);
        core_.finish(operation, -EPIPE);
        return true;
    }
    if (is_datagram_send(slot, operation)) {
        return send_datagrams(slot) != -EAGAIN;
    }
    if (operation.kind == OperationKind::send) {
        return send_stream(slot);
    }
    const int result = start_operation(slot, operation);
    if (result == -EAGAIN) {
        return false;
    }
    remove(slot, operation, result);
    return true;
}

void Sender::begin_batch(RingSlot& slot, io_uring_sqe& entry, std::uint16_t count, bool is_silent,
                         bool has_user) noexcept {
    slot.is_sending = true;
    slot.is_silent = is_silent;
    slot.batch_count = count;
    if (is_silent) {
        entry.flags = IOSQE_CQE_SKIP_SUCCESS;
        slot.send_position = core_.ring.last_position();
        silent_.push_back({slot.handle(), slot.send_position});
        has_waiting_user_ = has_waiting_user_ || has_user;
    }
}

void Sender::complete_silent(RingSlot& slot) noexcept {
    core_.end_request(slot);
    slot.is_sending = false;
    slot.is_silent = false;
    slot.is_ending_send = false;
    for (unsigned left = std::exchange(slot.batch_count, 0); left > 0; --left) {
        Operation& operation = *slot.writes.front();
        operation.engine_word &= ~kInBatch;
        const std::size_t size = size_of(parts_of(operation));
        static_cast<SendOperation&>(operation).sent = size;
        slot.writes.remove(operation);
        core_.finish(operation, static_cast<int>(size));
    }
    start(slot);
}

void Sender::on_send(RingSlot& slot, int result) noexcept {
    core_.end_request(slot);
    const bool was_silent = slot.is_silent;
    slot.is_sending = false;
    slot.is_silent = false;
    slot.is_ending_send = false;
    slot.must_wait_to_send = false;
    const unsigned count = std::exchange(slot.batch_count, 0);
    Operation* operation = slot.writes.front();
    for (unsigned i = 0; i < count; ++i, operation = operation->next) {
        operation->engine_word &= ~kInBatch;
    }
    end_stream_batch(slot, count, was_silent, result);
    start(slot);
}

void Sender::on_operation(RingSlot& slot, Operation& operation, int result) noexcept {
    const bool has_polled = (operation.engine_word & kPolls) != 0;
    operation.engine_word &= ~kPolls;
    if (operation.kind == OperationKind::connect) {
        result =
            finish_connect(slot, static_cast<ConnectOperation&>(operation), result, has_polled);
    } else if (has_polled && result >= 0) {
        // A write does not ask again.
        if (operation.kind == OperationKind::write) {
            operation.engine_word |= kPolls;
        }
        result = -EAGAIN;
    } else if (Core::must_repeat(operation, result)) {
        result = -EAGAIN;
    } else if (result == -EAGAIN) {
        slot.must_wait_to_send = true;
    }
    if (result == -EAGAIN && operation.cancel_reason != 0) {
        result = operation.cancel_reason;
    }
    if (result != -EAGAIN) {
        remove(slot, operation, result);
    }
    start(slot);
}

void Sender::flush(RingSlot& slot) noexcept {
    while (!slot.writes.is_empty() && !slot.is_sending) {
        Operation& head = *slot.writes.front();
        const bool is_send =
            head.kind == OperationKind::send || head.kind == OperationKind::send_to;
        if (!is_send || (head.engine_word & kInFlight) != 0 || slot.is_write_broken) {
            return;
        }
        const int result = attempt(head, slot.fd, core_.lent);
        if (result == -EAGAIN) {
            return;
        }
        remove(slot, head, result);
    }
}

}  // namespace berth::internal
