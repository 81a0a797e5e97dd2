// SPDX-License-Identifier: Apache-2.0
#include "src/engine/datagram_messages.h"

#include "src/base/system_calls.h"
#include "src/engine/call_result.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace berth::internal {
namespace {

constexpr int kReceiveFlags = MSG_DONTWAIT;
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

// Everything that recvmmsg() and sendmmsg() point to, for one call.
struct Batch {
    std::array<mmsghdr, kBatchSize> messages;
    std::array<iovec, kBatchSize> parts;
    std::array<sockaddr_storage, kBatchSize> addresses;
    std::array<SegmentControl, kBatchSize> controls;
};

void prepare_receive(Batch& batch, std::span<const Datagram> datagrams) noexcept {
    for (std::size_t i = 0; i < datagrams.size(); ++i) {
        batch.parts[i] = {datagrams[i].buffer.data(), datagrams[i].buffer.size()};
        msghdr& message = batch.messages[i].msg_hdr;
        message = {};
        message.msg_name = &batch.addresses[i];
        message.msg_namelen = sizeof batch.addresses[i];
        message.msg_iov = &batch.parts[i];
        message.msg_iovlen = 1;
        message.msg_control = batch.controls[i].bytes.data();
        message.msg_controllen = batch.controls[i].bytes.size();
    }
}

void note_received(const mmsghdr& from, const sockaddr_storage& address, Datagram& to) noexcept {
    const msghdr& message = from.msg_hdr;
    to.size = from.msg_len;
    to.is_truncated = (message.msg_flags & MSG_TRUNC) != 0;
    to.segment_size = read_segment_size(message);
    const Result<Address> peer =
        Address::from(reinterpret_cast<const sockaddr*>(&address), message.msg_namelen);
    to.has_peer = peer.has_value();
    to.peer = peer.value_or(Address());
}

void prepare_send(Batch& batch, std::span<const Datagram> datagrams) noexcept {
    for (std::size_t i = 0; i < datagrams.size(); ++i) {
        const Datagram& datagram = datagrams[i];
        batch.parts[i] = {datagram.buffer.data(), datagram.buffer.size()};
        msghdr& message = batch.messages[i].msg_hdr;
        message = {};
        if (datagram.has_peer) {
            message.msg_name = const_cast<sockaddr*>(datagram.peer.data());
            message.msg_namelen = datagram.peer.size();
        }
        message.msg_iov = &batch.parts[i];
        message.msg_iovlen = 1;
        add_segment_size(message, batch.controls[i], datagram.segment_size);
    }
}

}  // namespace

void add_segment_size(msghdr& message, SegmentControl& control, std::uint16_t size) noexcept {
    if (size == 0) {
        return;
    }
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof size);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof size);
    std::memcpy(CMSG_DATA(header), &size, sizeof size);
}

std::uint16_t read_segment_size(const msghdr& message) noexcept {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
        if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
            int size = 0;
            std::memcpy(&size, CMSG_DATA(header), sizeof size);
            return static_cast<std::uint16_t>(size);
        }
    }
    return 0;
}

int try_receive_from(ReceiveFromOperation& operation, int fd) noexcept {
    sockaddr_storage address;
    SegmentControl control;
    iovec part = {operation.buffer.data(), operation.buffer.size()};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = sizeof address;
    const bool is_one = operation.parts.empty();
    message.msg_iov = is_one ? &part : const_cast<iovec*>(operation.parts.data());
    message.msg_iovlen = is_one ? 1 : operation.parts.size();
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const int result = result_of([&] { return calls().recvmsg(fd, &message, kReceiveFlags); });
    if (result >= 0) {
        const auto* from = reinterpret_cast<const sockaddr*>(&address);
        operation.from = Endpoint::from(from, message.msg_namelen).value_or(Endpoint());
        operation.is_truncated = (message.msg_flags & MSG_TRUNC) != 0;
        operation.segment_size = read_segment_size(message);
    }
    return result;
}

int try_send_to(const SendToOperation& operation, int fd) noexcept {
    if (operation.parts.empty() && operation.segment_size == 0) {
        // The kernel need not read a msghdr.
        const iovec& bytes = operation.single;
        const sockaddr* to = operation.has_destination ? operation.to.data() : nullptr;
        const socklen_t to_size = operation.has_destination ? operation.to.size() : 0;
        return result_of([&] {
            return calls().sendto(fd, bytes.iov_base, bytes.iov_len, kSendFlags, to, to_size);
        });
    }
    const std::span<const iovec> parts =
        operation.parts.empty() ? std::span(&operation.single, 1) : operation.parts;
    SegmentControl control;
    msghdr message{};
    if (operation.has_destination) {
        message.msg_name = const_cast<sockaddr*>(operation.to.data());
        message.msg_namelen = operation.to.size();
    }
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    add_segment_size(message, control, operation.segment_size);
    return result_of([&] { return calls().sendmsg(fd, &message, kSendFlags); });
}

// What is prepared for a datagram costs as much as a tenth of receiving it: so no more are asked
// for than twice as many as came lately.
int try_receive_batch(ReceiveBatchOperation& operation, int fd) noexcept {
    constexpr std::size_t kFew = 8;
    static thread_local std::size_t recent_count = 0;
    const std::size_t most = std::clamp(2 * recent_count, kFew, kBatchSize);
    const auto datagrams = operation.datagrams.first(std::min(operation.datagrams.size(), most));
    Batch batch;
    prepare_receive(batch, datagrams);
    const int result = result_of([&] {
        return calls().recvmmsg(fd, batch.messages.data(), static_cast<unsigned>(datagrams.size()),
                                kReceiveFlags, nullptr);
    });
    for (int i = 0; i < result; ++i) {
        const auto at = static_cast<std::size_t>(i);
        note_received(batch.messages[at], batch.addresses[at], datagrams[at]);
    }
    if (result >= 0) {
        recent_count = std::max(static_cast<std::size_t>(result), recent_count / 2);
    }
    operation.has_left_some = result >= 0 && static_cast<std::size_t>(result) == datagrams.size();
    return result;
}

int try_send_batch(SendBatchOperation& operation, int fd) noexcept {
    while (operation.sent < operation.datagrams.size()) {
        const auto left = operation.datagrams.subspan(operation.sent);
        const auto next = left.first(std::min(left.size(), kBatchSize));
        Batch batch;
        prepare_send(batch, next);
        const int result = result_of([&] {
            return calls().sendmmsg(fd, batch.messages.data(), static_cast<unsigned>(next.size()),
                                    kSendFlags);
        });
        if (result < 0) {
            return result;
        }
        operation.sent += static_cast<std::size_t>(result);
    }
    return static_cast<int>(operation.sent);
}

}  // namespace berth::internal
