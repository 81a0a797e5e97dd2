// SPDX-License-Identifier: Apache-2.0
#include "src/engine/attempt.h"

#include "src/base/pipe_signal.h"
#include "src/base/system_calls.h"
#include "src/engine/call_result.h"
#include "src/engine/datagram_messages.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace berth::internal {
namespace {

// For calls without a flag like MSG_NOSIGNAL that are to move `size` bytes: a reader that is gone
// must not end the process. The signal may have been raised also when a part was moved.
template <class Call>
int result_without_signal(std::size_t size, Call call) noexcept {
    block_pipe_signal();
    const int result = result_of(call);
    release_pipe_signal(result != -EAGAIN && static_cast<std::size_t>(result) != size);
    return result;
}

// The peer of a waiting connection may have gone again (accept(2)): the next one is asked for,
// until there is none. An edge tells of them all but once.
int try_accept(AcceptOperation& operation, int fd) noexcept {
    constexpr unsigned kMostAborted = 4096;
    std::size_t count = 0;
    unsigned aborted_count = 0;
    while (count < operation.accepted.size()) {
        const int result =
            result_of([fd] { return calls().accept4(fd, nullptr, nullptr, SOCK_CLOEXEC); });
        const bool is_aborted = result == -ECONNABORTED || result == -EPROTO;
        if (is_aborted && ++aborted_count < kMostAborted) {
            continue;
        }
        if (result < 0) {
            return count > 0 ? static_cast<int>(count) : result;
        }
        operation.accepted[count++] = result;
    }
    return count > 0 || operation.accepted.empty() ? static_cast<int>(count) : -EAGAIN;
}

// connect() once more tells the state of an attempt under way: 0 or EISCONN when it has succeeded,
// EALREADY while it lasts, else why it failed.
int try_connect(ConnectOperation& operation, int fd) noexcept {
    const sockaddr* remote = operation.remote.data();
    if (calls().connect(fd, remote, operation.remote.size()) == 0) {
        return 0;
    }
    const int reason = errno;
    if (reason == EISCONN && operation.has_started) {
        return 0;
    }
    const bool is_under_way = reason == EINPROGRESS || reason == EALREADY || reason == EINTR;
    // A unix socket whose listener has no room answers EAGAIN and is not connecting; it stays an
    // error, for nothing tells when there is room.
    if (!is_under_way) {
        return reason == EAGAIN ? -ECONNREFUSED : -reason;
    }
    operation.has_started = true;
    return -EAGAIN;
}

int try_receive(ReceiveOperation& operation, int fd) noexcept {
    if (operation.room() == 0) {
        return 0;  // the kernel would wait for bytes, and take a datagram away
    }
    if (!operation.parts.empty()) {
        msghdr message{};
        message.msg_iov = const_cast<iovec*>(operation.parts.data());
        message.msg_iovlen = operation.parts.size();
        return result_of([&] { return calls().recvmsg(fd, &message, MSG_DONTWAIT); });
    }
    return result_of([&] {
        return calls().recv(fd, operation.buffer.data(), operation.buffer.size(), MSG_DONTWAIT);
    });
}

int try_receive_lent(ReceiveLentOperation& operation, int fd, LentPool& lent) noexcept {
    const std::span<std::byte> room = lent.room();
    const int result = room.empty() ? -ENOMEM : result_of([fd, room] {
        return calls().recv(fd, room.data(), room.size(), MSG_DONTWAIT);
    });
    if (result > 0) {
        operation.data = lent.lend(static_cast<std::size_t>(result));
    } else if (result != -EAGAIN) {
        operation.data = Lent(-result);
    }
    return result;
}

std::span<const iovec> parts_of(const SendOperation& operation) noexcept {
    return operation.parts.empty() ? std::span(&operation.single, 1) : operation.parts;
}

std::size_t size_of(std::span<const iovec> parts) noexcept {
    std::size_t size = 0;
    for (const iovec& part : parts) {
        size += part.iov_len;
    }
    return size;
}

// The parts behind the first `sent` bytes, at most as many as `out` has room for.
std::size_t remaining_parts(std::span<const iovec> parts, std::size_t sent,
                            std::span<iovec> out) noexcept {
    std::size_t count = 0;
    for (const iovec& part : parts) {
        if (sent >= part.iov_len) {
            sent -= part.iov_len;
            continue;
        }
        if (count == out.size()) {
            break;
        }
        out[count++] = {static_cast<std::byte*>(part.iov_base) + sent, part.iov_len - sent};
        sent = 0;
    }
    return count;
}

// Sends what is left, at most 64 parts of it; `offered` says how many bytes these were.
int send_once(const SendOperation& operation, int fd, std::size_t& offered) noexcept {
    constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const std::span<const iovec> parts = parts_of(operation);
    if (parts.size() == 1) {
        const iovec& part = parts.front();
        const auto* data = static_cast<const std::byte*>(part.iov_base) + operation.sent;
        offered = part.iov_len - operation.sent;
        return result_of([&] { return calls().send(fd, data, offered, kFlags); });
    }
    std::array<iovec, 64> left;
    msghdr message{};
    message.msg_iov = left.data();
    message.msg_iovlen = remaining_parts(parts, operation.sent, left);
    offered = size_of(std::span(left).first(message.msg_iovlen));
    return result_of([&] { return calls().sendmsg(fd, &message, kFlags); });
}

// A short send has filled the socket's buffer: the kernel will tell when there is room again.
int try_send(SendOperation& operation, int fd) noexcept {
    const std::size_t size = size_of(parts_of(operation));
    do {
        std::size_t offered = 0;
        const int result = send_once(operation, fd, offered);
        if (result < 0) {
            return result;
        }
        operation.sent += static_cast<std::size_t>(result);
        if (static_cast<std::size_t>(result) < offered) {
            return -EAGAIN;
        }
    } while (operation.sent < size);
    return static_cast<int>(std::min<std::size_t>(size, INT_MAX));
}

int try_poll(const PollOperation& operation, int fd) noexcept {
    pollfd entry{fd, operation.events, 0};
    const timespec no_time{};
    const int result = result_of([&] { return calls().ppoll(&entry, 1, &no_time, nullptr); });
    if (result <= 0) {
        return result == 0 ? -EAGAIN : result;
    }
    return (entry.revents & POLLNVAL) != 0 ? -EBADF : entry.revents;
}

int try_read(const ReadOperation& operation, int fd) noexcept {
    if (operation.offset < 0 && would_block(fd, POLLIN)) {
        return -EAGAIN;
    }
    const iovec part = {operation.buffer.data(), operation.buffer.size()};
    return result_of([&] { return calls().preadv2(fd, &part, 1, operation.offset, 0); });
}

int try_write(const WriteOperation& operation, int fd) noexcept {
    if (operation.offset < 0 && would_block(fd, POLLOUT)) {
        return -EAGAIN;
    }
    // A pipe that is ready takes PIPE_BUF bytes without waiting, but no more for certain.
    const std::size_t most = operation.offset < 0 ? PIPE_BUF : operation.buffer.size();
    const iovec part = {const_cast<std::byte*>(operation.buffer.data()),
                        std::min(operation.buffer.size(), most)};
    return result_of([&] { return calls().pwritev2(fd, &part, 1, operation.offset, 0); });
}

int try_send_file(SendFileOperation& operation, int fd) noexcept {
    while (operation.sent < operation.size) {
        off_t offset = operation.offset + static_cast<off_t>(operation.sent);
        const std::size_t left = operation.size - operation.sent;
        const int result = result_without_signal(
            left, [&] { return calls().sendfile(fd, operation.file, &offset, left); });
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            break;
        }
        operation.sent += static_cast<std::size_t>(result);
    }
    return static_cast<int>(std::min<std::size_t>(operation.sent, INT_MAX));
}

int try_splice(const SpliceOperation& operation, int fd) noexcept {
    const int in = operation.into_socket ? operation.pipe : fd;
    const int out = operation.into_socket ? fd : operation.pipe;
    return result_without_signal(operation.size, [&] {
        return calls().splice(in, nullptr, out, nullptr, operation.size,
                              SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    });
}

}  // namespace

// A descriptor that may be shared keeps its O_NONBLOCK: whether it would block is asked before.
bool would_block(int fd, short events) noexcept {
    pollfd entry{fd, events, 0};
    const timespec no_time{};
    return calls().ppoll(&entry, 1, &no_time, nullptr) == 0;
}

int attempt(Operation& operation, int fd, LentPool& lent) noexcept {
    switch (operation.kind) {
        case OperationKind::receive_lent:
            return try_receive_lent(static_cast<ReceiveLentOperation&>(operation), fd, lent);
        case OperationKind::send:
            return try_send(static_cast<SendOperation&>(operation), fd);
        case OperationKind::receive:
            return try_receive(static_cast<ReceiveOperation&>(operation), fd);
        case OperationKind::accept:
            return try_accept(static_cast<AcceptOperation&>(operation), fd);
        case OperationKind::connect:
            return try_connect(static_cast<ConnectOperation&>(operation), fd);
        case OperationKind::receive_from:
            return try_receive_from(static_cast<ReceiveFromOperation&>(operation), fd);
        case OperationKind::send_to:
            return try_send_to(static_cast<SendToOperation&>(operation), fd);
        case OperationKind::receive_batch:
            return try_receive_batch(static_cast<ReceiveBatchOperation&>(operation), fd);
        case OperationKind::send_batch:
            return try_send_batch(static_cast<SendBatchOperation&>(operation), fd);
        case OperationKind::poll:
            return try_poll(static_cast<const PollOperation&>(operation), fd);
        case OperationKind::read:
            return try_read(static_cast<const ReadOperation&>(operation), fd);
        case OperationKind::write:
            return try_write(static_cast<const WriteOperation&>(operation), fd);
        case OperationKind::send_file:
            return try_send_file(static_cast<SendFileOperation&>(operation), fd);
        case OperationKind::splice:
            return try_splice(static_cast<const SpliceOperation&>(operation), fd);
        default:
            return -EINVAL;
    }
}

int write_to_pipe(int pipe, std::span<const std::byte> bytes) noexcept {
    const iovec part = {const_cast<std::byte*>(bytes.data()),
                        std::min<std::size_t>(bytes.size(), PIPE_BUF)};
    return result_without_signal(part.iov_len,
                                 [&] { return calls().pwritev2(pipe, &part, 1, -1, 0); });
}

int close_descriptor(int fd) noexcept {
    return calls().close(fd) != 0 && errno == EBADF ? -EBADF : 0;
}

bool has_sent_in_part(const Operation& operation) noexcept {
    switch (operation.kind) {
        case OperationKind::send:
            return static_cast<const SendOperation&>(operation).sent > 0;
        case OperationKind::send_file:
            return static_cast<const SendFileOperation&>(operation).sent > 0;
        default:
            return false;
    }
}

}  // namespace berth::internal
