// SPDX-License-Identifier: Apache-2.0

// Sends of bytes, as many in one request as can be, and of datagrams that had to wait.

#include "src/base/system_calls.h"
#include "src/engine/datagram_messages.h"
#include "src/engine/io_uring/kernel_interface.h"
#include "src/engine/io_uring/send_parts.h"
#include "src/engine/io_uring/sender.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace berth::internal {
namespace {

constexpr std::size_t kMostSilentBytes = 16 * 1024;
// More is not worth joining; and the kernel takes less than 2 GiB at once.
constexpr std::size_t kMostJoinedBytes = 1 << 20;
constexpr unsigned kSendFlags = MSG_NOSIGNAL | MSG_WAITALL;

/// The batch that is being put together.
struct Batch {
    GatheredSend& send;
    std::size_t part_count = 0;
    std::size_t byte_count = 0;
    std::uint16_t operation_count = 0;
    bool is_whole = true;  // all that there is to send is in it
    bool has_user = false;

    // False: not all of it has found room.
    bool add(const SendOperation& operation) noexcept {
        std::size_t skipped = operation.sent;
        for (const iovec& part : parts_of(operation)) {
            if (skipped >= part.iov_len) {
                skipped -= part.iov_len;
                continue;
            }
            if (part_count == GatheredSend::kMostParts) {
                return false;
            }
            auto* base = static_cast<std::byte*>(part.iov_base) + skipped;
            send.parts[part_count++] = {base, part.iov_len - skipped};
            byte_count += part.iov_len - skipped;
            skipped = 0;
        }
        return true;
    }
};

void gather(const OperationList& writes, Batch& batch) noexcept {
    for (Operation* next = writes.front(); next != nullptr; next = next->next) {
        if (next->kind != OperationKind::send || batch.byte_count >= kMostJoinedBytes ||
            batch.operation_count == UINT16_MAX) {
            batch.is_whole = false;
            return;
        }
        next->engine_word |= kInBatch;
        ++batch.operation_count;
        batch.has_user = batch.has_user || next->keeps_alive;
        if (!batch.add(static_cast<const SendOperation&>(*next))) {
            batch.is_whole = false;
            return;
        }
    }
}

void fill_message(msghdr& message, SegmentControl& control, const Operation& operation) noexcept {
    const std::span<const iovec> parts = parts_of(operation);
    message = {};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    if (operation.kind == OperationKind::send_to) {
        const auto& send = static_cast<const SendToOperation&>(operation);
        if (send.has_destination) {
            message.msg_name = const_cast<sockaddr*>(send.to.data());
            message.msg_namelen = send.to.size();
        }
        add_segment_size(message, control, send.segment_size);
    }
}

int clamp_size(std::size_t size) noexcept {
    return static_cast<int>(std::min<std::size_t>(size, INT_MAX));
}

}  // namespace

// True: something has ended, and the head is to be looked at again.
bool Sender::send_stream(RingSlot& slot) noexcept {
    auto* room = scratch_.room<GatheredSend>(core_.ring);
    if (room == nullptr) {
        remove(slot, *slot.writes.front(), -ENOMEM);
        return true;
    }
    Batch batch{*room};
    gather(slot.writes, batch);
    if (batch.part_count == 0) {
        count_sent(slot, batch.operation_count, 0);
        return true;
    }
    const bool is_silent = batch.is_whole && batch.byte_count <= kMostSilentBytes &&
                           !slot.must_wait_to_send && !core_.is_embedded;
    const bool is_one = batch.part_count == 1;
    if (!is_one) {
        room->message = {};
        room->message.msg_iov = room->parts.data();
        room->message.msg_iovlen = batch.part_count;
        scratch_.keep(offsetof(GatheredSend, parts) + batch.part_count * sizeof(iovec));
    }
    const iovec first = room->parts[0];
    io_uring_sqe& entry =
        core_.request(slot, RequestTag::send, is_one ? IORING_OP_SEND : IORING_OP_SENDMSG);
    entry.addr = is_one ? reinterpret_cast<std::uint64_t>(first.iov_base)
                        : reinterpret_cast<std::uint64_t>(&room->message);
    entry.len = is_one ? static_cast<std::uint32_t>(std::min(first.iov_len, kMostBytes)) : 1;
    entry.msg_flags = is_silent ? kSendFlags | MSG_DONTWAIT : kSendFlags;
    entry.ioprio = slot.must_wait_to_send ? IORING_RECVSEND_POLL_FIRST : 0;
    begin_batch(slot, entry, batch.operation_count, is_silent, batch.has_user);
    return false;
}

// Answers how many operations of the batch are left.
unsigned Sender::count_sent(RingSlot& slot, unsigned count, std::size_t sent) noexcept {
    for (; count > 0; --count) {
        auto& operation = static_cast<SendOperation&>(*slot.writes.front());
        const std::size_t size = size_of(parts_of(operation));
        const std::size_t part = std::min(sent, size - operation.sent);
        operation.sent += part;
        sent -= part;
        if (operation.sent < size) {
            break;
        }
        operation.engine_word &= ~kInBatch;
        slot.writes.remove(operation);
        core_.finish(operation, clamp_size(size));
    }
    return count;
}

void Sender::end_cancelled(RingSlot& slot, unsigned count) noexcept {
    for (Operation* next = slot.writes.front(); next != nullptr && count > 0; --count) {
        Operation& operation = *next;
        next = operation.next;
        if (operation.cancel_reason != 0) {
            remove(slot, operation, operation.cancel_reason);
        }
    }
}

void Sender::end_stream_batch(RingSlot& slot, unsigned count, bool was_silent,
                              int result) noexcept {
    if (result > 0) {
        count = count_sent(slot, count, static_cast<std::size_t>(result));
        slot.must_wait_to_send = was_silent;
    } else if (result == -EAGAIN) {
        Core::make_blocking(slot);
        slot.must_wait_to_send = true;
    } else if (!Core::must_repeat(*slot.writes.front(), result)) {
        remove(slot, *slot.writes.front(), result == 0 ? -EPIPE : result);
        --count;
    }
    end_cancelled(slot, count);
}

// Several that wait go out by one system call, in their order: -EAGAIN when the first has to wait.
int Sender::send_datagrams(RingSlot& slot) noexcept {
    std::array<mmsghdr, kBatchSize> messages;
    std::array<SegmentControl, kBatchSize> controls;
    unsigned count = 0;
    for (Operation* next = slot.writes.front(); next != nullptr && count < kBatchSize;
         next = next->next) {
        if (next->kind != OperationKind::send && next->kind != OperationKind::send_to) {
            break;
        }
        fill_message(messages[count].msg_hdr, controls[count], *next);
        ++count;
    }
    const int sent = calls().sendmmsg(slot.fd, messages.data(), count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        const int reason = errno;
        Operation& head = *slot.writes.front();
        if (reason == EAGAIN) {
            core_.poll(slot, head, POLLOUT);
            return -EAGAIN;
        }
        if (reason != EINTR) {
            remove(slot, head, -reason);
        }
        return 0;
    }
    for (int i = 0; i < sent; ++i) {
        Operation& operation = *slot.writes.front();
        slot.writes.remove(operation);
        core_.finish(operation, static_cast<int>(messages[static_cast<unsigned>(i)].msg_len));
    }
    return 0;
}

}  // namespace berth::internal
