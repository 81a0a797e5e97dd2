// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/receiver.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace berth::internal {
namespace {

constexpr std::uint8_t kFullBuffersToGrow = 2;

BufferKind kind_of(const RingSlot& slot) noexcept {
    return slot.receives_into_large ? BufferKind::large : BufferKind::small;
}

}  // namespace

Start Receiver::submit(RingSlot& slot, Operation& operation) noexcept {
    operation.engine_word = 0;
    const bool is_first = slot.reads.is_empty() && !slot.has_untried && slot.ending_reads == 0;
    const int result = is_first ? try_at_once(slot, operation) : -EAGAIN;
    if (result != -EAGAIN) {
        return Core::answer(operation, result);
    }
    operation.stage = OperationStage::waiting;
    slot.reads.push_back(operation);
    if (is_first) {
        advance(slot);
    }
    return Start::pending;
}

void Receiver::cancel(RingSlot& slot, Operation& operation) noexcept {
    if (core_.cancel_waiting(slot, slot.reads, operation)) {
        advance(slot);
    }
}

void Receiver::cancel_all(RingSlot& slot) noexcept {
    slot.is_untried_over = slot.has_untried;
    for (Operation* next = slot.reads.front(); next != nullptr;) {
        Operation& operation = *next;
        next = operation.next;
        if (operation.cancel_reason == 0) {
            operation.cancel_reason = -ECANCELED;
            core_.cancel_waiting(slot, slot.reads, operation);
        }
    }
}

// The head starts, and while it ends at once, the next.
void Receiver::advance(RingSlot& slot) noexcept {
    while (!slot.reads.is_empty() && !slot.is_detached && !slot.has_untried &&
           slot.ending_reads == 0) {
        Operation& operation = *slot.reads.front();
        if ((operation.engine_word & kInFlight) != 0 || !start(slot, operation)) {
            return;
        }
    }
}

void Receiver::on_receive(RingSlot& slot, int result, unsigned flags) noexcept {
    const BufferKind kind = kind_of(slot);
    const bool was_poll = slot.is_receive_poll;
    if ((flags & IORING_CQE_F_MORE) == 0) {
        core_.end_request(slot);
        slot.is_receiving = false;
        slot.is_receive_poll = false;
        slot.is_multishot = false;
        slot.is_ending_receive = false;
    }
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        const std::uint32_t buffer = flags >> IORING_CQE_BUFFER_SHIFT;
        if (result > 0 && !slot.is_detached) {
            core_.buffers.append(slot.received, kind, buffer, static_cast<std::uint32_t>(result));
        } else {
            core_.buffers.discard(kind, buffer);
        }
    }
    if (slot.is_detached) {
        return;
    }
    if (was_poll) {
        on_readable(slot, result);
        return;
    }
    if (result > 0) {
        note_size(slot, result, flags);
    } else {
        note_end(slot, kind, result);
    }
    advance(slot);
    if (slot.has_received()) {
        note_heavy(slot);
        tell_polls(slot);
    }
}

void Receiver::note_end(RingSlot& slot, BufferKind kind, int result) noexcept {
    switch (result) {
        case -ENOBUFS:
            core_.buffers.group(kind).note_shortage();
            if (!slot.is_starved) {
                slot.is_starved = true;
                starved_[static_cast<std::size_t>(kind)].push_back(slot.handle());
            }
            break;
        case -ECANCELED:
        case -EINTR:
            break;
        case -EAGAIN:
            if (Core::make_blocking(slot)) {
                break;
            }
            [[fallthrough]];
        default:
            slot.has_end = true;
            slot.end = result == 0 ? -slot.lost_errno : result;
            break;
    }
}

void Receiver::note_size(RingSlot& slot, int result, unsigned flags) noexcept {
    if (!is_stream(slot.kind)) {
        return;
    }
    const bool is_full = result == BufferPool::kSmallSize;
    slot.is_likely_empty = !is_full && (flags & IORING_CQE_F_SOCK_NONEMPTY) == 0;
    slot.full_run = is_full ? static_cast<std::uint8_t>(slot.full_run + 1) : 0;
    if (slot.full_run >= kFullBuffersToGrow) {
        slot.full_run = 0;
        slot.prefers_large = true;
        disarm(slot);
    }
}

// -EAGAIN: data will come, or buffers first.
int Receiver::arm(RingSlot& slot) noexcept {
    if (slot.is_receiving || slot.is_starved) {
        return -EAGAIN;
    }
    BufferGroup& group =
        core_.buffers.group(slot.prefers_large ? BufferKind::large : BufferKind::small);
    if (const int result = group.open(core_.ring); result < 0) {
        return result;
    }
    io_uring_sqe& entry = core_.request(slot, RequestTag::receive, IORING_OP_RECV);
    entry.flags = IOSQE_BUFFER_SELECT;
    entry.buf_group = group.group();
    entry.ioprio = IORING_RECV_MULTISHOT;
    slot.is_receiving = true;
    slot.is_multishot = true;
    slot.receives_into_large = slot.prefers_large;
    return -EAGAIN;
}

void Receiver::disarm(RingSlot& slot) noexcept {
    if (slot.is_receiving && !slot.is_ending_receive) {
        core_.cancel(slot, RequestTag::receive);
    }
}

bool Receiver::is_heavy(const RingSlot& slot) noexcept {
    return slot.is_multishot && !slot.is_ending_receive &&
           slot.received.count >= core_.buffers.group(kind_of(slot)).fair_share();
}

// Whether it is too much shows when the loop has had its turn: a reader may be on its way.
void Receiver::note_heavy(RingSlot& slot) noexcept {
    if (!slot.is_heavy && is_heavy(slot)) {
        slot.is_heavy = true;
        heavy_.push_back(slot.handle());
    }
}

// What was received is no longer in the socket, where a poll would see it.
void Receiver::tell_polls(RingSlot& slot) noexcept {
    for (Operation* next = slot.polls.front(); next != nullptr; next = next->next) {
        if ((static_cast<const PollOperation&>(*next).events & POLLIN) != 0) {
            core_.cancel(slot, *next);
        }
    }
}

void Receiver::rearm_starved(BufferKind kind) noexcept {
    std::vector<SlotHandle>& starved = starved_[static_cast<std::size_t>(kind)];
    if (starved.empty()) {
        return;
    }
    const std::size_t count =
        std::min<std::size_t>(starved.size(), core_.buffers.group(kind).available_count());
    for (std::size_t i = 0; i < count; ++i) {
        RingSlot* slot = core_.slots.find(starved[i]);
        if (slot != nullptr && !slot->is_detached) {
            slot->is_starved = false;
            advance(*slot);
        }
    }
    starved.erase(starved.begin(), starved.begin() + static_cast<std::ptrdiff_t>(count));
}

void Receiver::before_wait() noexcept {
    looked_at_.swap(heavy_);
    for (const SlotHandle handle : looked_at_) {
        RingSlot* slot = core_.slots.find(handle);
        if (slot != nullptr && !slot->is_detached) {
            slot->is_heavy = false;
            if (is_heavy(*slot)) {
                disarm(*slot);
            }
        }
    }
    looked_at_.clear();
    for (const BufferKind kind : {BufferKind::small, BufferKind::large}) {
        if (core_.buffers.group(kind).is_open()) {
            core_.buffers.group(kind).refill();
            rearm_starved(kind);
        }
    }
}

void Receiver::release(RingSlot& slot) noexcept { core_.buffers.clear(slot.received); }

}  // namespace berth::internal
