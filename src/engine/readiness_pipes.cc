// SPDX-License-Identifier: Apache-2.0

// A splice has two descriptors, and may have to wait for either. While its pipe is full, or empty,
// it is on the list of a slot that the pipe gets for that time; the slot of its socket refers to
// that one, and nothing behind it is tried.

#include "src/engine/readiness_engine.h"

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

namespace berth::internal {

// After -EAGAIN. Somebody may have filled or emptied the pipe meanwhile: a splice that can go on
// is made again, with `result`.
bool ReadinessEngine::waits_for_pipe(ReadinessSlot& slot, Operation& operation,
                                     int& result) noexcept {
    if (operation.kind != OperationKind::splice) [[likely]] {
        return false;
    }
    const auto& splice = static_cast<const SpliceOperation&>(operation);
    const short events = splice.into_socket ? POLLIN : POLLOUT;
    bool is_held = would_block(splice.pipe, events);
    if (!is_held) {
        result = attempt(operation, slot.fd, lent_);
        is_held = result == -EAGAIN && would_block(splice.pipe, events);
    }
    // That its socket is not ready is known only if it was not the pipe.
    (splice.into_socket ? slot.may_write : slot.may_read) = is_held || result != -EAGAIN;
    return is_held;
}

// One that was of use since the last wait is watched still: perhaps as another pipe of that number.
SlotHandle ReadinessEngine::take_pipe(int fd) noexcept {
    for (std::uint32_t& index : unused_pipes_) {
        ReadinessSlot& pipe = slots_.at(index);
        if (pipe.fd == fd) {
            std::swap(index, unused_pipes_.back());
            const SlotHandle handle = {unused_pipes_.back(), pipe.generation};
            unused_pipes_.pop_back();
            forget_interest(pipe);
            return handle;
        }
    }
    try {
        // take_held() must not need memory.
        if (unused_pipes_.capacity() <= pipe_count_) {
            unused_pipes_.reserve(2 * std::size_t{pipe_count_} + 8);
        }
    } catch (const std::bad_alloc&) {
        return {};
    }
    const SlotHandle handle = slots_.take();
    if (handle.is_valid()) {
        ++pipe_count_;
        slots_.at(handle.index).fd = fd;
        slots_.at(handle.index).is_pipe = true;
    }
    return handle;
}

// Answers 0, or an errno when the pipe cannot be watched.
int ReadinessEngine::hold(ReadinessSlot& slot, SpliceOperation& operation) noexcept {
    const SlotHandle handle = take_pipe(operation.pipe);
    if (!handle.is_valid()) {
        return ENOMEM;
    }
    ReadinessSlot& pipe = slots_.at(handle.index);
    (operation.into_socket ? slot.write_pipe : slot.read_pipe) = handle.index + 1;
    (operation.into_socket ? pipe.reads : pipe.writes).push_back(operation);
    operation.engine_word = kHeld;
    const int reason = parked(handle, pipe);
    if (reason != 0) {
        take_held(slot, !operation.into_socket);
    }
    return reason;
}

// Null when none is held.
Operation* ReadinessEngine::take_held(ReadinessSlot& slot, bool is_read) noexcept {
    const std::uint32_t place = std::exchange(is_read ? slot.read_pipe : slot.write_pipe, 0);
    if (place == 0) {
        return nullptr;
    }
    ReadinessSlot& pipe = slots_.at(place - 1);
    Operation& operation = (is_read ? pipe.writes : pipe.reads).pop_front();
    operation.engine_word = 0;
    unparked({place - 1, pipe.generation}, pipe);
    unused_pipes_.push_back(place - 1);
    return &operation;
}

void ReadinessEngine::pipe_is_ready(const ReadinessSlot& pipe) noexcept {
    const bool is_read = !pipe.writes.is_empty();
    const Operation* held = is_read ? pipe.writes.front() : pipe.reads.front();
    if (held == nullptr) {
        return;
    }
    const SlotHandle handle = held->slot;
    ReadinessSlot& slot = slots_.at(handle.index);
    OperationList& list = is_read ? slot.reads : slot.writes;
    list.push_front(*take_held(slot, is_read));
    try_parked(slot, list, is_read ? slot.may_read : slot.may_write);
    if (!list.is_empty()) {
        static_cast<void>(parked(handle, slot));
    }
}

void ReadinessEngine::fail_held(ReadinessSlot& slot, bool is_read, int result) noexcept {
    if (Operation* operation = take_held(slot, is_read)) {
        ready_.push(*operation, result);
    }
}

void ReadinessEngine::free_unused_pipes() noexcept {
    while (!unused_pipes_.empty()) {
        const std::uint32_t index = unused_pipes_.back();
        unused_pipes_.pop_back();
        detached(slots_.at(index), Detach::keep);
        slots_.free(index);
        --pipe_count_;
    }
}

}  // namespace berth::internal
