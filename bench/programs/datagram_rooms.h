// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that the programs over berth receive datagrams into and send them from, and the way from
// there to the job and back.

#include "bench/harness/page_buffer.h"
#include "bench/programs/program.h"

#include <berth/operation.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace berth::bench {

/// What one receive of many datagrams may bring: a batch, or a few that the kernel has joined.
class BatchToReceive {
public:
    explicit BatchToReceive(DatagramMode mode)
        : BatchToReceive(mode == DatagramMode::segmented ? kJoinedCount : kDatagramBatch,
                         mode == DatagramMode::segmented ? kJoinedSize : kSize) {}

    std::span<Datagram> datagrams() noexcept { return datagrams_; }

    /// Gives the first `count` to the job, those that were joined one by one. False when the last
    /// has come.
    bool give(DatagramsJob& job, std::size_t count) const noexcept {
        return std::ranges::all_of(
            std::span(datagrams_).first(count), [&job](const Datagram& datagram) {
                return give(job, datagram.buffer.first(datagram.size), datagram.segment_size);
            });
    }

private:
    static constexpr std::size_t kSize = 2'048;
    static constexpr std::size_t kJoinedCount = 8;
    static constexpr std::size_t kJoinedSize = 64 * 1024;

    BatchToReceive(std::size_t count, std::size_t size) : memory_(count * size), datagrams_(count) {
        for (std::size_t i = 0; i < count; ++i) {
            datagrams_[i].buffer = memory_.bytes().subspan(i * size, size);
        }
    }

    static bool give(DatagramsJob& job, std::span<const std::byte> bytes,
                     std::size_t segment_size) noexcept {
        if (segment_size == 0) {
            return job.received(bytes);
        }
        for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), segment_size))) {
            if (!job.received(bytes.first(std::min(bytes.size(), segment_size)))) {
                return false;
            }
        }
        return true;
    }

    PageBuffer memory_;
    std::vector<Datagram> datagrams_;
};

/// What one send of bytes takes: a datagram, or as many as the kernel cuts them into.
class BytesToSend {
public:
    explicit BytesToSend(const DatagramsJob& job)
        : datagram_size_(job.datagram_size),
          most_(job.mode == DatagramMode::segmented
                    ? std::min(kMostSegments, kMostBytes / job.datagram_size)
                    : 1),
          buffer_(most_ * job.datagram_size) {}

    /// The next ones; empty when there are none left.
    std::span<const std::byte> fill(DatagramsJob& job) noexcept {
        std::size_t count = 0;
        while (count < most_ && job.fill(buffer_.data() + count * datagram_size_)) {
            ++count;
        }
        return std::span(buffer_).first(count * datagram_size_);
    }
    /// Into which the kernel is to cut `bytes`; 0: they are one datagram.
    std::uint16_t segment_size(std::span<const std::byte> bytes) const noexcept {
        return bytes.size() > datagram_size_ ? static_cast<std::uint16_t>(datagram_size_)
                                             : std::uint16_t{0};
    }

private:
    static constexpr std::size_t kMostSegments = 64;
    static constexpr std::size_t kMostBytes = 65'000;

    std::size_t datagram_size_;
    std::size_t most_;
    std::vector<std::byte> buffer_;
};

/// What one send of many datagrams takes.
class BatchToSend {
public:
    explicit BatchToSend(const DatagramsJob& job)
        : memory_(kDatagramBatch * job.datagram_size), datagrams_(kDatagramBatch) {
        for (std::size_t i = 0; i < kDatagramBatch; ++i) {
            datagrams_[i].buffer =
                std::span(memory_).subspan(i * job.datagram_size, job.datagram_size);
        }
    }

    /// The next ones; empty when there are none left.
    std::span<const Datagram> fill(DatagramsJob& job) noexcept {
        std::size_t count = 0;
        while (count < kDatagramBatch && job.fill(datagrams_[count].buffer.data())) {
            ++count;
        }
        return std::span(datagrams_).first(count);
    }

private:
    std::vector<std::byte> memory_;
    std::vector<Datagram> datagrams_;
};

}  // namespace berth::bench
