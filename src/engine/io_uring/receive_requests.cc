// SPDX-License-Identifier: Apache-2.0

// Operations that take bytes by a request, or a system call, of their own.

#include "src/base/system_calls.h"
#include "src/engine/attempt.h"
#include "src/engine/broken_stream.h"
#include "src/engine/datagram_messages.h"
#include "src/engine/io_uring/kernel_interface.h"
#include "src/engine/io_uring/receiver.h"

#include <sys/socket.h>

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace berth::internal {
namespace {

std::uint32_t length_of(std::size_t size) noexcept {
    return static_cast<std::uint32_t>(std::min(size, kMostBytes));
}

void note_message(const MessageBlock& block, ReceiveFromOperation& operation) noexcept {
    const msghdr& message = block.message;
    const auto* from = reinterpret_cast<const sockaddr*>(&block.address);
    operation.from = Endpoint::from(from, message.msg_namelen).value_or(Endpoint());
    operation.is_truncated = (message.msg_flags & MSG_TRUNC) != 0;
    operation.segment_size = read_segment_size(message);
}

}  // namespace

// -EAGAIN: it has to wait, or a request has to be made.
int Receiver::try_at_once(RingSlot& slot, Operation& operation) noexcept {
    if (has_no_room(operation)) {
        return 0;
    }
    if (slot.has_received()) {
        return take_received(slot, operation);
    }
    if (slot.is_receiving) {
        return -EAGAIN;
    }
    if (operation.kind == OperationKind::receive_lent) {
        const bool may_try = slot.is_bulk() && !slot.is_likely_empty &&
                             !operation.always_completes && !core_.has_unsent;
        return may_try ? receive_bulk(slot, operation) : -EAGAIN;
    }
    if (operation.kind == OperationKind::receive_batch) {
        return slot.is_likely_empty
                   ? -EAGAIN
                   : receive_batch(slot, static_cast<ReceiveBatchOperation&>(operation));
    }
    if (operation.kind == OperationKind::splice) {
        return core_.attempt_without_waiting(slot, operation);
    }
    return -EAGAIN;
}

// True: `operation`, the head, is done and gone, or gone to be tried.
bool Receiver::start(RingSlot& slot, Operation& operation) noexcept {
    int result = -EAGAIN;
    if (has_no_room(operation)) {
        result = 0;
    } else if (slot.has_received()) {
        result = take_received(slot, operation);
    } else if (operation.kind == OperationKind::receive_lent && slot.is_bulk() &&
               !slot.is_receiving) {
        return start_bulk(slot, operation);
    } else if (operation.kind == OperationKind::receive_lent) {
        result = arm(slot);
    } else if (slot.is_receiving) {
        // What comes is copied, or, where there is more to tell than bytes, asked for anew.
        if (operation.kind != OperationKind::receive && operation.kind != OperationKind::read) {
            disarm(slot);
        }
        return false;
    }
    if (result == -EAGAIN && operation.kind != OperationKind::receive_lent) {
        result = start_direct(slot, operation);
    }
    if (result == -EAGAIN) {
        return false;
    }
    slot.reads.remove(operation);
    core_.finish(operation, result);
    return true;
}

// -EAGAIN: a request is under way.
int Receiver::start_direct(RingSlot& slot, Operation& operation) noexcept {
    const bool has_polled = (operation.engine_word & kPolls) != 0;
    operation.engine_word &= ~kPolls;
    switch (operation.kind) {
        case OperationKind::receive:
            return start_receive(slot, static_cast<ReceiveOperation&>(operation));
        case OperationKind::read:
            start_read(slot, static_cast<ReadOperation&>(operation), has_polled);
            return -EAGAIN;
        case OperationKind::receive_from:
            return start_receive_from(slot, static_cast<ReceiveFromOperation&>(operation));
        case OperationKind::receive_batch:
            return start_batch(slot, static_cast<ReceiveBatchOperation&>(operation), has_polled);
        case OperationKind::splice:
            return start_splice(slot, static_cast<SpliceOperation&>(operation));
        default:
            return -EINVAL;
    }
}

int Receiver::start_receive(RingSlot& slot, ReceiveOperation& operation) noexcept {
    if (!operation.parts.empty()) {
        MessageBlock* block = core_.take_block(operation);
        if (block == nullptr) {
            return -ENOMEM;
        }
        block->message = {};
        block->message.msg_iov = const_cast<iovec*>(operation.parts.data());
        block->message.msg_iovlen = operation.parts.size();
        start_message(slot, operation, *block);
        return -EAGAIN;
    }
    io_uring_sqe& entry = core_.request(slot, operation, IORING_OP_RECV);
    entry.addr = reinterpret_cast<std::uint64_t>(operation.buffer.data());
    entry.len = length_of(operation.buffer.size());
    entry.ioprio = slot.is_likely_empty ? IORING_RECVSEND_POLL_FIRST : 0;
    return -EAGAIN;
}

void Receiver::start_message(RingSlot& slot, Operation& operation, MessageBlock& block) noexcept {
    io_uring_sqe& entry = core_.request(slot, operation, IORING_OP_RECVMSG);
    entry.addr = reinterpret_cast<std::uint64_t>(&block.message);
    entry.len = 1;
    entry.ioprio = slot.is_likely_empty ? IORING_RECVSEND_POLL_FIRST : 0;
}

// A descriptor with O_NONBLOCK that is not berth's answers EAGAIN instead of waiting.
void Receiver::start_read(RingSlot& slot, ReadOperation& operation, bool is_ready) noexcept {
    if (slot.is_likely_empty && operation.offset < 0 && slot.kind == DescriptorKind::other &&
        !is_ready) {
        core_.poll(slot, operation, POLLIN);
        return;
    }
    io_uring_sqe& entry = core_.request(slot, operation, IORING_OP_READ);
    entry.addr = reinterpret_cast<std::uint64_t>(operation.buffer.data());
    entry.len = length_of(operation.buffer.size());
    entry.off = static_cast<std::uint64_t>(operation.offset);
}

int Receiver::start_receive_from(RingSlot& slot, ReceiveFromOperation& operation) noexcept {
    MessageBlock* block = core_.take_block(operation);
    if (block == nullptr) {
        return -ENOMEM;
    }
    block->part = {operation.buffer.data(), operation.buffer.size()};
    block->message = {};
    block->message.msg_name = &block->address;
    block->message.msg_namelen = sizeof block->address;
    const bool is_one = operation.parts.empty();
    block->message.msg_iov = is_one ? &block->part : const_cast<iovec*>(operation.parts.data());
    block->message.msg_iovlen = is_one ? 1 : operation.parts.size();
    block->message.msg_control = block->control.bytes.data();
    block->message.msg_controllen = block->control.bytes.size();
    start_message(slot, operation, *block);
    return -EAGAIN;
}

int Receiver::start_batch(RingSlot& slot, ReceiveBatchOperation& operation,
                          bool is_ready) noexcept {
    const int result = slot.is_likely_empty && !is_ready ? -EAGAIN : receive_batch(slot, operation);
    if (result == -EAGAIN) {
        core_.poll(slot, operation, POLLIN);
    }
    return result;
}

int Receiver::receive_batch(RingSlot& slot, ReceiveBatchOperation& operation) noexcept {
    const int result = try_receive_batch(operation, slot.fd);
    slot.is_likely_empty = result == -EAGAIN || (result >= 0 && !operation.has_left_some);
    return result;
}

// From a stream into a pipe; first what was received into buffers of the loop.
int Receiver::start_splice(RingSlot& slot, SpliceOperation& operation) noexcept {
    if (!slot.received.is_empty() && would_block(operation.pipe, POLLOUT)) {
        core_.poll_pipe(slot, operation, POLLOUT);
        return -EAGAIN;
    }
    if (!slot.received.is_empty()) {
        const std::span<std::byte> front = core_.buffers.front(slot.received);
        const int result =
            write_to_pipe(operation.pipe, front.first(std::min(front.size(), operation.size)));
        if (result > 0) {
            core_.buffers.use_front(slot.received, static_cast<std::size_t>(result));
        }
        return result;
    }
    const int result = core_.attempt_without_waiting(slot, operation);
    if (result == -EAGAIN) {
        // Which of the two is not ready, only they know.
        if (!would_block(operation.pipe, POLLOUT)) {
            core_.poll(slot, operation, POLLIN);
        } else {
            core_.poll_pipe(slot, operation, POLLOUT);
        }
    }
    return result;
}

void Receiver::on_operation(RingSlot& slot, Operation& operation, int result,
                            unsigned flags) noexcept {
    result = finish_request(slot, operation, result, flags);
    if (result == -EAGAIN && operation.cancel_reason != 0) {
        result = operation.cancel_reason;
    }
    if (result != -EAGAIN) {
        slot.reads.remove(operation);
        core_.finish(operation, result);
    }
    advance(slot);
}

// -EAGAIN: `operation` is to be started again.
int Receiver::finish_request(RingSlot& slot, Operation& operation, int result,
                             unsigned flags) noexcept {
    const bool has_polled = (operation.engine_word & kPolls) != 0;
    if (has_polled && result >= 0) {
        return -EAGAIN;
    }
    operation.engine_word &= ~kPolls;
    if (Core::must_repeat(operation, result)) {
        return -EAGAIN;
    }
    if (result == -EAGAIN) {
        Core::make_blocking(slot);
        slot.is_likely_empty = true;
        return -EAGAIN;
    }
    if (slot.lost_errno != 0 && is_end_of_stream(operation, result)) [[unlikely]] {
        return -slot.lost_errno;
    }
    switch (operation.kind) {
        case OperationKind::receive: {
            const auto& receive = static_cast<const ReceiveOperation&>(operation);
            slot.is_likely_empty = result >= 0 &&
                                   static_cast<std::size_t>(result) < receive.room() &&
                                   (flags & IORING_CQE_F_SOCK_NONEMPTY) == 0;
            break;
        }
        case OperationKind::receive_from:
            if (result >= 0) {
                note_message(*core_.block_of(operation),
                             static_cast<ReceiveFromOperation&>(operation));
            }
            slot.is_likely_empty = (flags & IORING_CQE_F_SOCK_NONEMPTY) == 0;
            break;
        default:
            break;
    }
    return result;
}

}  // namespace berth::internal
