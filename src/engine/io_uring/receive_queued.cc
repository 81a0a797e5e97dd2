// SPDX-License-Identifier: Apache-2.0

// Operations that take what was received before they were submitted.

#include "src/base/system_calls.h"
#include "src/engine/io_uring/receiver.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace berth::internal {
namespace {

// A receive into provided buffers does not tell: a socket whose datagrams are received so is
// connected.
Endpoint peer_of(int fd) noexcept {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* base = reinterpret_cast<sockaddr*>(&address);
    if (calls().getpeername(fd, base, &size) != 0) {
        return {};
    }
    return Endpoint::from(base, size).value_or(Endpoint());
}

}  // namespace

// -EAGAIN for what cannot be had without a request.
int Receiver::take_received(RingSlot& slot, Operation& operation) noexcept {
    if (slot.received.is_empty()) {
        return take_end(slot, operation);
    }
    switch (operation.kind) {
        case OperationKind::receive_lent: {
            auto& receive = static_cast<ReceiveLentOperation&>(operation);
            receive.data = core_.buffers.lend_front(slot.received);
            return static_cast<int>(receive.data.size());
        }
        case OperationKind::receive:
            return copy_received(slot, static_cast<ReceiveOperation&>(operation));
        case OperationKind::read:
            return copy_received(slot, static_cast<ReadOperation&>(operation).buffer);
        case OperationKind::receive_from:
            return copy_datagram(slot, static_cast<ReceiveFromOperation&>(operation));
        case OperationKind::receive_batch:
            return copy_datagrams(slot, static_cast<ReceiveBatchOperation&>(operation));
        default:
            return -EAGAIN;
    }
}

// The end of a stream stays; an error and an empty datagram are told once.
int Receiver::take_end(RingSlot& slot, Operation& operation) noexcept {
    if (!is_stream(slot.kind) || slot.end != 0) {
        slot.has_end = false;
    }
    if (slot.end == 0) {
        switch (operation.kind) {
            case OperationKind::receive_lent:
                static_cast<ReceiveLentOperation&>(operation).data = Lent();
                break;
            case OperationKind::receive_from: {
                auto& receive = static_cast<ReceiveFromOperation&>(operation);
                receive.from = peer_of(slot.fd);
                receive.segment_size = 0;
                receive.is_truncated = false;
                break;
            }
            case OperationKind::receive_batch: {
                Datagram& datagram = static_cast<ReceiveBatchOperation&>(operation).datagrams[0];
                datagram.size = 0;
                datagram.peer = peer_of(slot.fd).address();
                return 1;
            }
            default:
                break;
        }
    }
    return slot.end;
}

// Of a stream as much as there is room for, of datagrams one.
int Receiver::copy_received(RingSlot& slot, std::span<const iovec> parts) noexcept {
    const bool of_stream = is_stream(slot.kind);
    std::size_t copied = 0;
    for (const iovec& part : parts) {
        std::size_t filled = 0;
        while (filled < part.iov_len && !slot.received.is_empty()) {
            const std::span<std::byte> from = core_.buffers.front(slot.received);
            const std::size_t size = std::min(from.size(), part.iov_len - filled);
            std::memcpy(static_cast<std::byte*>(part.iov_base) + filled, from.data(), size);
            filled += size;
            copied += size;
            core_.buffers.use_front(slot.received, size);
            if (!of_stream && size == from.size()) {
                return static_cast<int>(copied);
            }
        }
    }
    if (!of_stream) {
        core_.buffers.drop_front(slot.received);
    }
    return static_cast<int>(copied);
}

int Receiver::copy_received(RingSlot& slot, std::span<std::byte> to) noexcept {
    const iovec part = {to.data(), to.size()};
    return copy_received(slot, std::span(&part, 1));
}

int Receiver::copy_datagram(RingSlot& slot, ReceiveFromOperation& operation) noexcept {
    const std::size_t size = core_.buffers.front(slot.received).size();
    operation.from = peer_of(slot.fd);
    operation.segment_size = 0;
    const int copied = copy_received(slot, operation);
    operation.is_truncated = size > static_cast<std::size_t>(copied);
    return copied;
}

int Receiver::copy_datagrams(RingSlot& slot, ReceiveBatchOperation& operation) noexcept {
    const Endpoint peer = peer_of(slot.fd);
    int count = 0;
    for (Datagram& datagram : operation.datagrams) {
        if (slot.received.is_empty()) {
            break;
        }
        datagram.is_truncated = core_.buffers.front(slot.received).size() > datagram.buffer.size();
        datagram.size = static_cast<std::size_t>(copy_received(slot, datagram.buffer));
        datagram.peer = peer.address();
        datagram.has_peer = true;
        datagram.segment_size = 0;
        ++count;
    }
    operation.has_left_some = !slot.received.is_empty();
    return count;
}

void Receiver::take_unread(RingSlot& slot, std::vector<std::byte>& bytes) {
    while (!slot.received.is_empty()) {
        const std::span<std::byte> front = core_.buffers.front(slot.received);
        bytes.insert(bytes.end(), front.begin(), front.end());
        core_.buffers.drop_front(slot.received);
    }
}

}  // namespace berth::internal
