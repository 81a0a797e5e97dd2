// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/core.h"

#include "src/base/system_calls.h"
#include "src/engine/attempt.h"

#include <sys/ioctl.h>

#include <cerrno>

namespace berth::internal {
namespace {

constexpr unsigned kBlockShift = 8;
constexpr std::uint8_t kMostCancelTries = 64;

bool is_being_ended(const RingSlot& slot) noexcept {
    return (slot.is_receiving && slot.is_ending_receive) ||
           (slot.is_accepting && slot.is_ending_accept) ||
           (slot.is_sending && slot.is_ending_send) || (slot.is_detached && slot.in_flight > 0);
}

void set_nonblocking(int fd, int on) noexcept {
    // Fails for no socket; if it did, the call that follows would wait, and no more.
    static_cast<void>(calls().ioctl(fd, FIONBIO, &on));
}

}  // namespace

io_uring_sqe& Core::request(RingSlot& slot, Operation& operation, io_uring_op code) noexcept {
    io_uring_sqe& entry = ring.next_entry();
    entry.opcode = static_cast<std::uint8_t>(code);
    entry.fd = slot.fd;
    entry.user_data = user_data_of(operation, RequestTag::operation);
    operation.engine_word |= kInFlight;
    ++slot.in_flight;
    ++in_flight_count;
    return entry;
}

io_uring_sqe& Core::request(RingSlot& slot, RequestTag tag, io_uring_op code) noexcept {
    io_uring_sqe& entry = ring.next_entry();
    entry.opcode = static_cast<std::uint8_t>(code);
    entry.fd = slot.fd;
    entry.user_data = user_data_of(slot.handle(), tag);
    ++slot.in_flight;
    ++in_flight_count;
    return entry;
}

void Core::poll(RingSlot& slot, Operation& operation, short events) noexcept {
    io_uring_sqe& entry = request(slot, operation, IORING_OP_POLL_ADD);
    entry.poll32_events = poll_mask(events);
    operation.engine_word |= kPolls;
}

void Core::poll_pipe(RingSlot& slot, SpliceOperation& operation, short events) noexcept {
    io_uring_sqe& entry = request(slot, operation, IORING_OP_POLL_ADD);
    entry.fd = operation.pipe;
    entry.poll32_events = poll_mask(events);
    operation.engine_word |= kPolls;
}

void Core::cancel(RingSlot& slot, Operation& operation) noexcept {
    if ((operation.engine_word & kCancelling) != 0) {
        return;
    }
    io_uring_sqe& entry = ring.next_entry();
    entry.opcode = IORING_OP_ASYNC_CANCEL;
    entry.fd = -1;
    entry.addr = user_data_of(operation, RequestTag::operation);
    entry.user_data = user_data_of(operation, RequestTag::cancel_operation);
    operation.engine_word |= kCancelling;
    ++slot.in_flight;
    ++in_flight_count;
}

void Core::cancel(RingSlot& slot, RequestTag target) noexcept {
    switch (target) {
        case RequestTag::receive:
            slot.is_ending_receive = true;
            break;
        case RequestTag::accept:
            slot.is_ending_accept = true;
            break;
        default:
            slot.is_ending_send = true;
            break;
    }
    io_uring_sqe& entry = request(slot, RequestTag::cancel_request, IORING_OP_ASYNC_CANCEL);
    entry.fd = -1;
    entry.addr = user_data_of(slot.handle(), target);
    entry.user_data = user_data_of(slot.handle(), RequestTag::cancel_request, target);
}

void Core::cancel_in_flight(RingSlot& slot) noexcept {
    if (slot.is_receiving && !slot.is_ending_receive) {
        cancel(slot, RequestTag::receive);
    }
    if (slot.is_accepting && !slot.is_ending_accept) {
        cancel(slot, RequestTag::accept);
    }
    if (slot.is_sending && !slot.is_ending_send) {
        cancel(slot, RequestTag::send);
    }
    for (const OperationList* list : {&slot.reads, &slot.writes, &slot.polls}) {
        for (Operation* next = list->front(); next != nullptr; next = next->next) {
            if ((next->engine_word & kInFlight) != 0) {
                cancel(slot, *next);
            }
        }
    }
}

// What this cancels beyond what was meant is made again; see must_repeat().
void Core::cancel_by_descriptor(RingSlot& slot) noexcept {
    if (slot.is_ending_all) {
        return;
    }
    io_uring_sqe& entry = request(slot, RequestTag::cancel_request, IORING_OP_ASYNC_CANCEL);
    entry.cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
    entry.user_data = user_data_of(slot.handle(), RequestTag::cancel_request, RequestTag::all);
    slot.is_ending_all = true;
}

void Core::on_operation_cancelled(Operation& operation, int result) noexcept {
    RingSlot& slot = slots.at(operation.slot.index);
    end_request(slot);
    operation.engine_word &= ~kCancelling;
    if ((operation.engine_word & kFinished) != 0) {
        ending.remove(operation);
        if (waits_for_input(operation)) {
            --slot.ending_reads;
        }
        operation.engine_word = 0;
        ready.push(operation, operation.result);
    } else if (result == -ENOENT && (operation.engine_word & kInFlight) != 0) {
        cancel(slot, operation);
    }
}

void Core::on_request_cancelled(RingSlot& slot, RequestTag target, int result) noexcept {
    end_request(slot);
    const bool was_all = target == RequestTag::all;
    if (was_all) {
        slot.is_ending_all = false;
    }
    if (was_all || result == -ENOENT) {
        not_found_.push_back(slot.handle());
    }
}

void Core::cancel_again() noexcept {
    for (const SlotHandle handle : not_found_) {
        RingSlot* slot = slots.find(handle);
        if (slot == nullptr) {
            continue;
        }
        if (!is_being_ended(*slot)) {
            slot->cancel_tries = 0;
        } else if (slot->cancel_tries < kMostCancelTries) {
            ++slot->cancel_tries;
            cancel_by_descriptor(*slot);
        }
    }
    not_found_.clear();
}

bool Core::cancel_waiting(RingSlot& slot, OperationList& list, Operation& operation) noexcept {
    if ((operation.engine_word & kInFlight) != 0) {
        cancel(slot, operation);
        return false;
    }
    list.remove(operation);
    finish(operation, operation.cancel_reason);
    return true;
}

void Core::cancel_list(OperationList& list) noexcept {
    for (Operation* next = list.front(); next != nullptr;) {
        Operation& operation = *next;
        next = operation.next;
        if (operation.cancel_reason == 0) {
            operation.cancel_reason = -ECANCELED;
        }
        if ((operation.engine_word & (kInFlight | kInBatch)) == 0) {
            list.remove(operation);
            finish(operation, operation.cancel_reason);
        }
    }
}

void Core::finish(Operation& operation, int result) noexcept {
    if (operation.cancel_reason != 0 && (result == -ECANCELED || result == -EINTR)) {
        result = operation.cancel_reason;
    }
    if (operation.kind == OperationKind::receive_lent && result < 0) {
        static_cast<ReceiveLentOperation&>(operation).data = Lent(-result);
    }
    if (operation.engine_word >> kBlockShift != 0) {
        messages.give_back((operation.engine_word >> kBlockShift) - 1);
        operation.engine_word &= (1U << kBlockShift) - 1;
    }
    if ((operation.engine_word & kCancelling) != 0) {
        operation.result = result;
        operation.engine_word = kCancelling | kFinished;
        ending.push_back(operation);
        if (waits_for_input(operation)) {
            ++slots.at(operation.slot.index).ending_reads;
        }
        return;
    }
    operation.engine_word = 0;
    ready.push(operation, result);
}

Start Core::answer(Operation& operation, int result) noexcept {
    if (operation.kind == OperationKind::receive_lent && result < 0) {
        static_cast<ReceiveLentOperation&>(operation).data = Lent(-result);
    }
    operation.result = result;
    operation.stage = OperationStage::idle;
    return Start::done;
}

bool Core::must_repeat(const Operation& operation, int result) noexcept {
    return operation.cancel_reason == 0 && (result == -ECANCELED || result == -EINTR);
}

// O_NONBLOCK counts when a request is carried out, which only this thread does.
int Core::attempt_without_waiting(RingSlot& slot, Operation& operation) noexcept {
    if (slot.kind == DescriptorKind::other) {
        return attempt(operation, slot.fd, lent);
    }
    set_nonblocking(slot.fd, 1);
    const int result = attempt(operation, slot.fd, lent);
    set_nonblocking(slot.fd, 0);
    return result;
}

bool Core::make_blocking(RingSlot& slot) noexcept {
    if (slot.was_made_blocking || slot.kind == DescriptorKind::other) {
        return false;
    }
    set_nonblocking(slot.fd, 0);
    slot.was_made_blocking = true;
    return true;
}

MessageBlock* Core::block_of(Operation& operation) noexcept {
    return &messages.at((operation.engine_word >> kBlockShift) - 1);
}

MessageBlock* Core::take_block(Operation& operation) noexcept {
    if (operation.engine_word >> kBlockShift == 0) {
        const std::uint32_t block = messages.take();
        if (block == MessagePool::kNone) {
            return nullptr;
        }
        operation.engine_word |= (block + 1) << kBlockShift;
    }
    return block_of(operation);
}

}  // namespace berth::internal
