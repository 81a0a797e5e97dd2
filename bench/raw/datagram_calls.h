// SPDX-License-Identifier: Apache-2.0
#pragma once

// Datagrams by system calls, in the three modes, as any readiness engine's program makes them.

#include "bench/harness/page_buffer.h"
#include "bench/programs/program.h"

#include <sys/socket.h>

#include <array>

namespace berth::bench::raw {

/// The size of the parts that a received buffer holds: UDP_GRO's control message, or all of it.
std::size_t segment_size(const msghdr& message, std::size_t received) noexcept;
/// How many datagrams one segmented send carries.
std::size_t segments_per_send(std::size_t datagram_size) noexcept;
/// Gives each part of a received buffer to the job; false after the last one.
bool deliver_segments(DatagramsJob& job, std::span<const std::byte> data,
                      std::size_t segment) noexcept;

class DatagramReceiver {
public:
    explicit DatagramReceiver(DatagramsJob& job);
    /// Receives until nothing is there.
    Result<void> drain();
    bool has_ended() const noexcept { return has_ended_; }

private:
    // True: more may be there.
    Result<bool> receive_one();
    Result<bool> receive_batch();
    Result<bool> receive_segments();

    DatagramsJob& job_;
    PageBuffer buffer_;
    std::array<mmsghdr, kDatagramBatch> messages_{};
    std::array<iovec, kDatagramBatch> places_{};
    bool has_ended_ = false;
};

class DatagramSender {
public:
    explicit DatagramSender(DatagramsJob& job);
    /// True when everything is sent, false when the socket can take no more now.
    Result<bool> send_until_full();

private:
    std::size_t fill_batch(std::size_t count);
    /// How many of `count` datagrams at the front of the buffer went out; 0: none can now.
    Result<std::size_t> send_some(std::size_t count);

    DatagramsJob& job_;
    PageBuffer buffer_;
    std::size_t batch_count_;  // datagrams filled at once
    std::size_t filled_count_ = 0;
    std::size_t sent_count_ = 0;  // of those
    std::array<mmsghdr, kDatagramBatch> messages_{};
    std::array<iovec, kDatagramBatch> places_{};
};

}  // namespace berth::bench::raw
