// SPDX-License-Identifier: Apache-2.0
#pragma once

// Datagrams by recvmsg(), sendmsg() and their batched forms, with the control messages of UDP_GRO
// and UDP_SEGMENT. Results as those of attempt().

#include <berth/operation.h>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace berth::internal {

/// Datagrams that one system call moves at most.
inline constexpr std::size_t kBatchSize = 64;

/// Room for the one control message that there can be.
struct alignas(cmsghdr) SegmentControl {
    std::array<std::byte, CMSG_SPACE(sizeof(int))> bytes;
};

/// Puts UDP_SEGMENT into `control` and into `message`; nothing for size 0.
void add_segment_size(msghdr& message, SegmentControl& control, std::uint16_t size) noexcept;
/// What UDP_GRO said in a received message; 0 for nothing.
std::uint16_t read_segment_size(const msghdr& message) noexcept;

int try_receive_from(ReceiveFromOperation& operation, int fd) noexcept;
int try_send_to(const SendToOperation& operation, int fd) noexcept;
int try_receive_batch(ReceiveBatchOperation& operation, int fd) noexcept;
int try_send_batch(SendBatchOperation& operation, int fd) noexcept;

}  // namespace berth::internal
