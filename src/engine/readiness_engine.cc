// SPDX-License-Identifier: Apache-2.0
#include "src/engine/readiness_engine.h"

#include "src/base/system_calls.h"
#include "src/engine/broken_stream.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <poll.h>

#include <cerrno>
#include <utility>

namespace berth::internal {
namespace {

constexpr unsigned kEnd = POLLHUP | POLLRDHUP | POLLERR;

// Whether a result shows that nothing more is there. (A datagram is always shorter than its room,
// and the state of what is polled before each try does not matter. Before an urgent byte a stream
// pauses, with more behind it, and a unix one behind descriptors.)
bool has_drained(const ReadinessSlot& slot, const Operation& operation, int result) noexcept {
    const auto count = static_cast<std::size_t>(result);
    switch (operation.kind) {
        case OperationKind::receive:
            return slot.kind == DescriptorKind::stream && !slot.has_urgent && result > 0 &&
                   count < static_cast<const ReceiveOperation&>(operation).room();
        case OperationKind::receive_lent:
            return slot.kind == DescriptorKind::stream && !slot.has_urgent && result > 0 &&
                   count < LentPool::kRoom;
        case OperationKind::accept:
            return count < static_cast<const AcceptOperation&>(operation).accepted.size();
        case OperationKind::receive_batch:
            return !static_cast<const ReceiveBatchOperation&>(operation).has_left_some;
        default:
            return false;
    }
}

void finish_lent(Operation& operation, int result) noexcept {
    if (operation.kind == OperationKind::receive_lent) {
        static_cast<ReceiveLentOperation&>(operation).data = Lent(-result);
    }
}

void note_failed_write(ReadinessSlot& slot, int system_errno) noexcept {
    slot.is_write_broken = true;
    if (is_loss(system_errno)) {
        slot.lost_errno = static_cast<short>(system_errno);
    }
}

void note_failure(ReadinessSlot& slot, const Operation& operation, int result) noexcept {
    if (is_stream(slot.kind) && is_stream_write(operation)) {
        note_failed_write(slot, -result);
    }
}

}  // namespace

SlotHandle ReadinessEngine::attach(int fd, DescriptorKind kind) noexcept {
    const SlotHandle handle = slots_.take();
    if (!handle.is_valid()) {
        errno = slots_.size() >= SlotTable<ReadinessSlot>::kMostSlots ? EMFILE : ENOMEM;
        return handle;
    }
    ReadinessSlot& slot = slots_.at(handle.index);
    slot.fd = fd;
    slot.kind = kind;
    // A new socket can be written to, and seldom has anything to read: the kernel will tell.
    slot.may_write = true;
    return handle;
}

int ReadinessEngine::socket_mode() const noexcept { return SOCK_NONBLOCK; }

void ReadinessEngine::note_mode(SlotHandle slot) noexcept {
    slots_.at(slot.index).is_nonblocking = true;
}

void ReadinessEngine::fail(OperationList& list, int result) noexcept {
    while (!list.is_empty()) {
        Operation& operation = list.pop_front();
        finish_lent(operation, result);
        ready_.push(operation, result);
    }
}

void ReadinessEngine::fail_all(ReadinessSlot& slot, int result) noexcept {
    fail_held(slot, true, result);
    fail_held(slot, false, result);
    fail(slot.reads, result);
    fail(slot.writes, result);
}

void ReadinessEngine::cancel_input(SlotHandle handle) noexcept {
    ReadinessSlot* slot = slots_.find(handle);
    if (slot == nullptr) {
        return;
    }
    slot->is_untried_over = slot->has_untried;
    fail_held(*slot, true, -ECANCELED);
    if (!slot->reads.is_empty()) {
        fail(slot->reads, -ECANCELED);
        unparked(handle, *slot);
    }
}

void ReadinessEngine::detach(SlotHandle handle, Detach how, CloseOperation* closing) noexcept {
    ReadinessSlot* slot = slots_.find(handle);
    if (slot != nullptr) {
        fail_all(*slot, -ECANCELED);
        detached(*slot, how);
    } else {
        slot = slots_.find_retired(handle);
    }
    int result = slot != nullptr ? 0 : -EBADF;
    if (slot != nullptr) {
        if (how == Detach::close) {
            result = close_descriptor(slot->fd);
        }
        slots_.free(handle.index);
    }
    if (closing != nullptr) {
        ready_.push(*closing, result);
    }
}

int ReadinessEngine::make_nonblocking(ReadinessSlot& slot) noexcept {
    if (slot.kind == DescriptorKind::other) {
        return 0;
    }
    int on = 1;
    if (calls().ioctl(slot.fd, FIONBIO, &on) != 0) {
        return -errno;
    }
    slot.is_nonblocking = true;
    return 0;
}

int ReadinessEngine::try_now(ReadinessSlot& slot, Operation& operation) noexcept {
    if (slot.is_write_broken && is_stream_write(operation)) {
        return -EPIPE;
    }
    int result = attempt(operation, slot.fd, lent_);
    if (slot.lost_errno != 0 && is_end_of_stream(operation, result)) [[unlikely]] {
        result = -slot.lost_errno;
        finish_lent(operation, result);
    }
    bool& may = waits_for_input(operation) ? slot.may_read : slot.may_write;
    if (result < 0 && result != -EAGAIN) {
        note_failure(slot, operation, result);
    }
    if (result == -EAGAIN ||
        (result >= 0 && !slot.has_hung_up && has_drained(slot, operation, result))) {
        may = false;
    }
    return result;
}

Start ReadinessEngine::submit(Operation& operation) noexcept {
    ReadinessSlot* slot = slots_.find(operation.slot);
    if (slot == nullptr) {
        finish_lent(operation, -EBADF);
        operation.result = -EBADF;
        return Start::done;
    }
    const OperationTraits& traits = traits_of(operation);
    int result = 0;
    if (traits.needs_nonblocking && !slot->is_nonblocking) {
        result = make_nonblocking(*slot);
    } else if (slot->is_write_broken && is_stream_write(operation)) {
        result = -EPIPE;
    }
    const bool is_read = waits_for_input(operation);
    OperationList& list = is_read ? slot->reads : slot->writes;
    const bool is_held = (is_read ? slot->read_pipe : slot->write_pipe) != 0;
    const bool must_queue = !list.is_empty() || (is_read && slot->has_untried) || is_held;
    const bool may_try = (is_read ? slot->may_read : slot->may_write) || is_always_tried(operation);
    if (result == 0 && !must_queue && may_try) {
        if (operation.kind == OperationKind::receive_lent && operation.always_completes) {
            push_receive(*slot, operation);
            return Start::pending;
        }
        result = try_now(*slot, operation);
        if (result == -EAGAIN && waits_for_pipe(*slot, operation, result)) {
            result = -hold(*slot, static_cast<SpliceOperation&>(operation));
            if (result == 0) {
                operation.stage = OperationStage::waiting;
                return Start::pending;
            }
        }
    } else if (result == 0) {
        result = -EAGAIN;
    }
    if (result == -EAGAIN) {
        operation.stage = OperationStage::waiting;
        list.push_back(operation);
        result = -parked(operation.slot, *slot);
        if (result == 0) {
            return Start::pending;
        }
        list.remove(operation);
        note_failure(*slot, operation, result);
        finish_lent(operation, result);
        operation.stage = OperationStage::idle;
    }
    operation.result = result;
    return Start::done;
}

int ReadinessEngine::send_now(SlotHandle handle, std::span<const std::byte> bytes) noexcept {
    ReadinessSlot* slot = slots_.find(handle);
    if (slot == nullptr) {
        return -EBADF;
    }
    if (!slot->may_write || slot->is_write_broken || !slot->writes.is_empty()) {
        return -EAGAIN;
    }
    const ssize_t count =
        calls().send(slot->fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
        slot->may_write = static_cast<std::size_t>(count) == bytes.size();
        return static_cast<int>(count);
    }
    // An interrupted send is made again by the operation that follows.
    if (errno == EINTR || errno == EAGAIN) {
        return -EAGAIN;
    }
    const int reason = errno;
    note_failed_write(*slot, reason);
    return -reason;
}

void ReadinessEngine::cancel(Operation& operation) noexcept {
    ReadinessSlot& slot = slots_.at(operation.slot.index);
    const bool is_read = waits_for_input(operation);
    OperationList& list = is_read ? slot.reads : slot.writes;
    const bool is_held = operation.kind == OperationKind::splice && operation.engine_word == kHeld;
    const bool is_next_free =
        is_held || (&operation == list.front() && !(is_read && slot.has_untried));
    if (is_held) {
        take_held(slot, is_read);
    } else {
        list.remove(operation);
    }
    if (has_sent_in_part(operation)) {
        slot.is_write_broken = true;
    }
    finish_lent(operation, operation.cancel_reason);
    ready_.push(operation, operation.cancel_reason);
    // What has waited behind it only may have nothing to wait for.
    if (is_next_free && !list.is_empty()) {
        try_parked(slot, list, is_read ? slot.may_read : slot.may_write);
    }
    if (list.is_empty()) {
        unparked(operation.slot, slot);
    } else if (is_next_free) {
        static_cast<void>(parked(operation.slot, slot));
    }
}

// A lent receive is tried when its completion is about to run: its user then gives the memory back
// before the next receive takes it, still in the cache, for the next socket. Tried all at once, a
// hundred ready sockets would need a hundred pieces of memory.
void ReadinessEngine::push_receive(ReadinessSlot& slot, Operation& operation) noexcept {
    slot.has_untried = true;
    ready_.push_untried(operation);
}

bool ReadinessEngine::defer_receive(ReadinessSlot& slot) noexcept {
    Operation* first = slot.read_pipe == 0 ? slot.reads.front() : nullptr;
    if (first == nullptr || first->kind != OperationKind::receive_lent || !slot.may_read) {
        return false;
    }
    slot.reads.remove(*first);
    push_receive(slot, *first);
    return true;
}

bool ReadinessEngine::attempt_now(Operation& operation) noexcept {
    ReadinessSlot* slot = slots_.find(operation.slot);
    if (slot == nullptr) {
        finish_lent(operation, -ECANCELED);
        operation.result = -ECANCELED;
        return true;
    }
    slot->has_untried = false;
    if (slot->is_untried_over && operation.cancel_reason == 0) {
        operation.cancel_reason = -ECANCELED;
    }
    slot->is_untried_over = false;
    int result = try_now(*slot, operation);
    if (result == -EAGAIN && operation.cancel_reason == 0) {
        operation.stage = OperationStage::waiting;
        slot->reads.push_front(operation);
        static_cast<void>(parked(operation.slot, *slot));
        return false;
    }
    if (result == -EAGAIN) {
        result = operation.cancel_reason;
        finish_lent(operation, result);
    }
    operation.result = result;
    serve_next(operation.slot, *slot);
    return true;
}

void ReadinessEngine::try_reads(ReadinessSlot& slot) noexcept {
    if (!defer_receive(slot)) {
        try_parked(slot, slot.reads, slot.may_read);
    }
}

// Those behind a receive that was on the ready list, tried or not, have waited for it only.
void ReadinessEngine::serve_next(SlotHandle handle, ReadinessSlot& slot) noexcept {
    if (slot.reads.is_empty()) {
        return;
    }
    try_reads(slot);
    if (slot.reads.is_empty()) {
        unparked(handle, slot);
    }
}

void ReadinessEngine::forget_untried(Operation& operation) noexcept {
    ReadinessSlot* slot = slots_.find(operation.slot);
    if (std::exchange(operation.needs_attempt, false) && slot != nullptr) {
        slot->has_untried = false;
        slot->is_untried_over = false;
        serve_next(operation.slot, *slot);
    }
}

void ReadinessEngine::try_parked(ReadinessSlot& slot, OperationList& list, bool& may) noexcept {
    const std::uint32_t& held_place = &list == &slot.reads ? slot.read_pipe : slot.write_pipe;
    while (held_place == 0 && !list.is_empty() && (may || is_always_tried(*list.front()))) {
        Operation& operation = *list.front();
        int result = try_now(slot, operation);
        if (result == -EAGAIN && waits_for_pipe(slot, operation, result)) {
            list.remove(operation);
            result = -hold(slot, static_cast<SpliceOperation&>(operation));
            if (result != 0) {
                ready_.push(operation, result);
            }
            continue;
        }
        if (result == -EAGAIN) {
            return;
        }
        list.remove(operation);
        ready_.push(operation, result);
    }
}

void ReadinessEngine::take_events(SlotHandle handle, ReadinessSlot& slot,
                                  unsigned events) noexcept {
    if (slot.is_pipe) [[unlikely]] {
        pipe_is_ready(slot);
        return;
    }
    if ((events & POLLNVAL) != 0) {
        fail_all(slot, -EBADF);
        unparked(handle, slot);
        return;
    }
    const bool had_reads = !slot.reads.is_empty();
    const bool had_writes = !slot.writes.is_empty();
    slot.has_hung_up = slot.has_hung_up || (events & kEnd) != 0;
    slot.has_urgent = slot.has_urgent || (events & POLLPRI) != 0;
    slot.may_read = slot.may_read || (events & (POLLIN | POLLPRI | kEnd)) != 0;
    slot.may_write = slot.may_write || (events & (POLLOUT | POLLHUP | POLLERR)) != 0;
    if (!slot.has_untried) {
        try_reads(slot);
    }
    finish_connect(slot, events);
    try_parked(slot, slot.writes, slot.may_write);
    if ((had_reads && slot.reads.is_empty()) || (had_writes && slot.writes.is_empty())) {
        unparked(handle, slot);
    }
}

// A socket that can be written to, and has no error to tell, is connected.
void ReadinessEngine::finish_connect(ReadinessSlot& slot, unsigned events) noexcept {
    Operation* first = slot.writes.front();
    if (first == nullptr || first->kind != OperationKind::connect) [[likely]] {
        return;
    }
    const bool is_connected = (events & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT &&
                              static_cast<const ConnectOperation&>(*first).has_started;
    if (is_connected && tells_errors()) {
        slot.writes.remove(*first);
        ready_.push(*first, 0);
    }
}

void ReadinessEngine::shut_down() noexcept {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        if (slots_.is_taken(i) && !slots_.at(i).is_pipe) {
            fail_all(slots_.at(i), -ECANCELED);
            detached(slots_.at(i), Detach::keep);
            slots_.retire(i);
        }
    }
    free_unused_pipes();
}

void ReadinessEngine::add_to(LoopStatistics& statistics) const noexcept {
    statistics.wait_count += counted_.wait_count;
    statistics.interest_count += counted_.interest_count;
    statistics.wake_count += counted_.wake_count;
    statistics.socket_count += slots_.used_count() - pipe_count_;
}

}  // namespace berth::internal
