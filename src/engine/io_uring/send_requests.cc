// SPDX-License-Identifier: Apache-2.0

// Connecting, and operations that put bytes into a descriptor by a request, or a system call, of
// their own.

#include "src/base/system_calls.h"
#include "src/engine/attempt.h"
#include "src/engine/datagram_messages.h"
#include "src/engine/io_uring/kernel_interface.h"
#include "src/engine/io_uring/sender.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace berth::internal {
namespace {

int pending_error(int fd) noexcept {
    int error = 0;
    socklen_t size = sizeof error;
    return calls().getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? -error : -errno;
}

}  // namespace

// -EAGAIN: a request is under way.
int Sender::start_operation(RingSlot& slot, Operation& operation) noexcept {
    const bool has_polled = (operation.engine_word & kPolls) != 0;
    operation.engine_word &= ~kPolls;
    switch (operation.kind) {
        case OperationKind::connect:
            return start_connect(slot, static_cast<ConnectOperation&>(operation));
        case OperationKind::write:
            start_write(slot, static_cast<WriteOperation&>(operation), has_polled);
            return -EAGAIN;
        case OperationKind::send_file:
            return start_send_file(slot, operation);
        case OperationKind::splice:
            return start_splice(slot, static_cast<SpliceOperation&>(operation));
        case OperationKind::send_batch: {
            const int result = try_send_batch(static_cast<SendBatchOperation&>(operation), slot.fd);
            if (result == -EAGAIN) {
                core_.poll(slot, operation, POLLOUT);
            }
            return result;
        }
        default:
            return -EINVAL;
    }
}

int Sender::start_connect(RingSlot& slot, ConnectOperation& operation) noexcept {
    if (operation.has_started) {
        core_.poll(slot, operation, POLLOUT);
        return -EAGAIN;
    }
    io_uring_sqe& entry = core_.request(slot, operation, IORING_OP_CONNECT);
    entry.addr = reinterpret_cast<std::uint64_t>(operation.remote.data());
    entry.off = operation.remote.size();
    return -EAGAIN;
}

int Sender::finish_connect(RingSlot& slot, ConnectOperation& operation, int result,
                           bool has_polled) noexcept {
    if (has_polled && result >= 0) {
        return pending_error(slot.fd);
    }
    if (Core::must_repeat(operation, result)) {
        // A second connect() would ask for a second connection.
        operation.has_started = operation.has_started || result == -EINTR;
        return -EAGAIN;
    }
    switch (result) {
        case -EINPROGRESS:
        case -EALREADY:
            operation.has_started = true;
            return -EAGAIN;
        case -EISCONN:
            return operation.has_started ? 0 : result;
        default:
            return result;
    }
}

// A descriptor with O_NONBLOCK that is not berth's answers EAGAIN instead of waiting.
void Sender::start_write(RingSlot& slot, WriteOperation& operation, bool is_ready_now) noexcept {
    if (slot.must_wait_to_send && !is_ready_now) {
        slot.must_wait_to_send = false;
        core_.poll(slot, operation, POLLOUT);
        return;
    }
    io_uring_sqe& entry = core_.request(slot, operation, IORING_OP_WRITE);
    entry.addr = reinterpret_cast<std::uint64_t>(operation.buffer.data());
    entry.len = static_cast<std::uint32_t>(std::min(operation.buffer.size(), kMostBytes));
    entry.off = static_cast<std::uint64_t>(operation.offset);
}

int Sender::start_send_file(RingSlot& slot, Operation& operation) noexcept {
    const int result = core_.attempt_without_waiting(slot, operation);
    if (result == -EAGAIN) {
        core_.poll(slot, operation, POLLOUT);
    }
    return result;
}

// From a pipe into the socket.
int Sender::start_splice(RingSlot& slot, SpliceOperation& operation) noexcept {
    const int result = core_.attempt_without_waiting(slot, operation);
    if (result == -EAGAIN) {
        // Which of the two is not ready, only they know.
        if (!would_block(operation.pipe, POLLIN)) {
            core_.poll(slot, operation, POLLOUT);
        } else {
            core_.poll_pipe(slot, operation, POLLIN);
        }
    }
    return result;
}

}  // namespace berth::internal
