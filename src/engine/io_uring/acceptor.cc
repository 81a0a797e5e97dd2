// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/acceptor.h"

#include "src/base/system_calls.h"
#include "src/engine/attempt.h"

#include <sys/socket.h>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace berth::internal {
namespace {

bool has_run_out(int result) noexcept {
    return result == -EMFILE || result == -ENFILE || result == -ENOBUFS || result == -ENOMEM;
}

bool has_unclaimed(const RingSlot& slot) noexcept {
    return slot.accepted != nullptr && slot.accepted->size() > 0;
}

// The first that waits need not wait any longer.
bool may_serve(const RingSlot& slot) noexcept {
    return has_unclaimed(slot) || slot.has_end || has_no_room(*slot.reads.front());
}

}  // namespace

int Acceptor::take(RingSlot& slot, AcceptOperation& operation) noexcept {
    AcceptQueue& queue = *slot.accepted;
    const std::size_t count = std::min(queue.size(), operation.accepted.size());
    const auto first = queue.descriptors.begin() + static_cast<std::ptrdiff_t>(queue.taken_count);
    std::copy_n(first, count, operation.accepted.begin());
    queue.taken_count += count;
    if (queue.taken_count >= queue.size()) {
        queue.descriptors.erase(queue.descriptors.begin(),
                                first + static_cast<std::ptrdiff_t>(count));
        queue.taken_count = 0;
    }
    return static_cast<int>(count);
}

Start Acceptor::submit(RingSlot& slot, AcceptOperation& operation) noexcept {
    operation.engine_word = 0;
    if (slot.reads.is_empty() && has_unclaimed(slot)) {
        return Core::answer(operation, take(slot, operation));
    }
    if (slot.reads.is_empty() && has_no_room(operation)) {
        return Core::answer(operation, 0);
    }
    operation.stage = OperationStage::waiting;
    slot.reads.push_back(operation);
    arm(slot);
    return Start::pending;
}

// The request stays armed: connections are accepted ahead.
void Acceptor::cancel(RingSlot& slot, Operation& operation) noexcept {
    core_.cancel_waiting(slot, slot.reads, operation);
}

void Acceptor::arm(RingSlot& slot) noexcept {
    if (slot.is_accepting || slot.is_detached) {
        return;
    }
    slot.is_accepting = true;
    slot.is_accept_poll = slot.must_poll_accept;
    if (slot.is_accept_poll) {
        io_uring_sqe& entry = core_.request(slot, RequestTag::accept, IORING_OP_POLL_ADD);
        entry.poll32_events = poll_mask(POLLIN);
        return;
    }
    io_uring_sqe& entry = core_.request(slot, RequestTag::accept, IORING_OP_ACCEPT);
    entry.accept_flags = SOCK_CLOEXEC;
    entry.ioprio = IORING_ACCEPT_MULTISHOT;
}

void Acceptor::disarm(RingSlot& slot) noexcept {
    if (slot.is_accepting && !slot.is_ending_accept) {
        core_.cancel(slot, RequestTag::accept);
    }
}

void Acceptor::mark(RingSlot& slot) noexcept {
    if (!slot.has_new_accepts) {
        slot.has_new_accepts = true;
        new_.push_back(slot.handle());
    }
}

void Acceptor::on_accept(RingSlot& slot, int result, unsigned flags) noexcept {
    const bool was_poll = slot.is_accept_poll;
    if ((flags & IORING_CQE_F_MORE) == 0) {
        core_.end_request(slot);
        slot.is_accepting = false;
        slot.is_ending_accept = false;
        slot.is_accept_poll = false;
    }
    if (was_poll) {
        // Whatever it found, the accept that follows tells what it is.
        slot.must_poll_accept = false;
        slot.has_polled_accept = true;
    } else if (result >= 0) {
        slot.has_polled_accept = false;
        if (slot.accepted == nullptr) {
            slot.accepted = std::make_unique<AcceptQueue>();
        }
        slot.accepted->descriptors.push_back(result);
    } else {
        note_error(slot, result);
    }
    if (slot.is_detached) {
        release(slot);
    } else {
        mark(slot);
    }
}

void Acceptor::note_error(RingSlot& slot, int result) noexcept {
    const bool was_there = slot.has_polled_accept;
    slot.has_polled_accept = false;
    slot.must_poll_accept = has_run_out(result);
    // The peer of a waiting connection has gone again (accept(2)): the next one is asked for.
    const bool is_nothing = result == -ECANCELED || result == -EINTR || result == -ECONNABORTED ||
                            result == -EPROTO || (result == -EAGAIN && Core::make_blocking(slot)) ||
                            (slot.must_poll_accept && !was_there);
    if (!is_nothing) {
        slot.end = result;
        slot.has_end = true;
    }
}

void Acceptor::after_completions() noexcept {
    for (const SlotHandle handle : new_) {
        RingSlot* slot = core_.slots.find(handle);
        if (slot == nullptr || slot->is_detached) {
            continue;
        }
        slot->has_new_accepts = false;
        while (!slot->reads.is_empty() && may_serve(*slot)) {
            auto& operation = static_cast<AcceptOperation&>(slot->reads.pop_front());
            if (has_no_room(operation)) {
                core_.finish(operation, 0);
                continue;
            }
            const bool has_connection = has_unclaimed(*slot);
            const int result = has_connection ? take(*slot, operation) : slot->end;
            slot->has_end = slot->has_end && has_connection;
            core_.finish(operation, result);
        }
        // An error that nobody waits for is met again by the next one who does.
        slot->has_end = false;
        if (!slot->reads.is_empty()) {
            arm(*slot);
        } else if (has_unclaimed(*slot) && slot->accepted->size() >= most_unclaimed_) {
            full_.push_back(handle);
        }
    }
    new_.clear();
}

// Whether it is too much shows when the loop has had its turn: somebody may have claimed them.
void Acceptor::before_wait() noexcept {
    for (const SlotHandle handle : full_) {
        RingSlot* slot = core_.slots.find(handle);
        if (slot != nullptr && !slot->is_detached && has_unclaimed(*slot) &&
            slot->accepted->size() >= most_unclaimed_) {
            disarm(*slot);
        }
    }
    full_.clear();
}

void Acceptor::release(RingSlot& slot) noexcept {
    if (slot.accepted == nullptr) {
        return;
    }
    AcceptQueue& queue = *slot.accepted;
    for (std::size_t i = queue.taken_count; i < queue.descriptors.size(); ++i) {
        calls().close(queue.descriptors[i]);
    }
    slot.accepted.reset();
}

}  // namespace berth::internal
