// SPDX-License-Identifier: Apache-2.0

// How sockets, and the engine, end: only when the kernel has let go of every buffer.

#include "src/base/system_calls.h"
#include "src/engine/attempt.h"
#include "src/engine/io_uring/io_uring_engine.h"
#include "src/engine/wait_time.h"

#include <sys/socket.h>

#include <cerrno>

namespace berth::internal {
namespace {

constexpr std::uint64_t kCancelAgainNs = 100'000'000;

}  // namespace

// A request holds the file: until it has ended, close() sends the peer no FIN, and a receive takes
// bytes from whoever has the descriptor next. So the kernel is entered here and now; what it cannot
// end at once (a request that is on its way between two lists) ends in a later wait().
void IoUringEngine::detach(SlotHandle handle, Detach how, CloseOperation* closing) noexcept {
    RingSlot* slot = core_.slots.find(handle);
    if (slot == nullptr || (slot->is_detached && !slot->is_left)) {
        if (closing != nullptr) {
            ready_.push(*closing, -EBADF);
        }
        return;
    }
    slot->is_to_close = how == Detach::close;
    slot->closing = closing;
    if (slot->is_left) {
        free_slot(*slot);
        return;
    }
    sender_.flush(*slot);
    slot->is_detached = true;
    ++detached_count_;
    Acceptor::release(*slot);
    core_.cancel_list(slot->reads);
    core_.cancel_list(slot->writes);
    core_.cancel_list(slot->polls);
    if (slot->in_flight == 0) {
        free_slot(*slot);
    } else {
        const bool of_stream = is_stream(slot->kind);
        core_.cancel_in_flight(*slot);
        enter(false, 0);
        slot = core_.slots.find(handle);
        if (slot != nullptr && of_stream && how == Detach::close) {
            calls().shutdown(slot->fd, SHUT_RDWR);
        }
    }
    push_out();
}

void IoUringEngine::take_unread(SlotHandle handle, std::vector<std::byte>& bytes) {
    RingSlot* slot = find_open(handle);
    if (slot == nullptr) {
        return;
    }
    cancel_input(handle);
    receiver_.stop(*slot);
    while (slot->is_receiving) {
        const int result = enter(true, monotonic_now_ns() + kCancelAgainNs);
        if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN &&
            result != -EBUSY) {
            return;
        }
    }
    receiver_.take_unread(*slot, bytes);
}

void IoUringEngine::settle(RingSlot& slot) noexcept {
    if (slot.is_detached && !slot.is_left && slot.in_flight == 0) {
        free_slot(slot);
    }
}

void IoUringEngine::free_slot(RingSlot& slot) noexcept {
    receiver_.release(slot);
    const int result = slot.is_to_close ? close_descriptor(slot.fd) : 0;
    if (slot.closing != nullptr) {
        ready_.push(*slot.closing, result);
    }
    --detached_count_;
    core_.slots.free(slot.index);
}

void IoUringEngine::shut_down() noexcept {
    for (std::uint32_t i = 0; i < core_.slots.size(); ++i) {
        if (!core_.slots.is_taken(i) || core_.slots.at(i).is_detached) {
            continue;
        }
        RingSlot& slot = core_.slots.at(i);
        sender_.flush(slot);
        slot.is_detached = true;
        slot.is_left = true;
        ++detached_count_;
        Acceptor::release(slot);
        core_.cancel_list(slot.reads);
        core_.cancel_list(slot.writes);
        core_.cancel_list(slot.polls);
        core_.cancel_in_flight(slot);
    }
    waker_.stop(core_.ring);
    end_all_requests();
}

void IoUringEngine::cancel_everything() noexcept {
    io_uring_sqe& entry = core_.ring.next_entry();
    entry.opcode = IORING_OP_ASYNC_CANCEL;
    entry.fd = -1;
    entry.cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
    // A success would end the wait for those that it has cancelled.
    entry.flags = IOSQE_CQE_SKIP_SUCCESS;
    entry.user_data = kIgnored;
}

void IoUringEngine::end_all_requests() noexcept {
    while (core_.in_flight_count + waker_.in_flight_count() > 0) {
        const int result = enter(true, monotonic_now_ns() + kCancelAgainNs);
        if (result == -ETIME) {
            cancel_everything();
        }
        const bool can_go_on = result == 0 || result == -ETIME || result == -EINTR ||
                               result == -EAGAIN || result == -EBUSY;
        if (!can_go_on || has_lost_completions_) {
            give_up();
            return;
        }
    }
}

// The kernel was out of memory and has lost completions: they are not waited for. Closing the ring
// ends its requests.
void IoUringEngine::give_up() noexcept {
    while (!core_.ending.is_empty()) {
        ready_.push(core_.ending.pop_front(), -ECANCELED);
    }
    for (std::uint32_t i = 0; i < core_.slots.size(); ++i) {
        if (!core_.slots.is_taken(i)) {
            continue;
        }
        RingSlot& slot = core_.slots.at(i);
        for (OperationList* list : {&slot.reads, &slot.writes, &slot.polls}) {
            while (!list->is_empty()) {
                ready_.push(list->pop_front(), -ECANCELED);
            }
        }
        slot.in_flight = 0;
        settle(slot);
    }
    core_.in_flight_count = 0;
}

}  // namespace berth::internal
