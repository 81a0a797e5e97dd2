// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a receive of a datagram points to while the kernel works for it: memory that must stay,
// without an allocation for each operation.

#include "src/engine/datagram_messages.h"

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace berth::internal {

struct MessageBlock {
    msghdr message;
    iovec part;
    sockaddr_storage address;
    SegmentControl control;
};

class MessagePool {
public:
    static constexpr std::uint32_t kNone = ~0U;

    /// kNone when there is no memory.
    std::uint32_t take() noexcept {
        if (free_.empty() && !grow()) {
            return kNone;
        }
        const std::uint32_t block = free_.back();
        free_.pop_back();
        return block;
    }
    void give_back(std::uint32_t block) noexcept { free_.push_back(block); }
    MessageBlock& at(std::uint32_t block) noexcept {
        return (*chunks_[block / kChunkSize])[block % kChunkSize];
    }

private:
    static constexpr std::uint32_t kChunkSize = 64;
    using Chunk = std::array<MessageBlock, kChunkSize>;

    bool grow() noexcept {
        std::unique_ptr<Chunk> chunk(new (std::nothrow) Chunk);
        if (chunk == nullptr) {
            return false;
        }
        const auto first = static_cast<std::uint32_t>(chunks_.size()) * kChunkSize;
        chunks_.push_back(std::move(chunk));
        // give_back() must not need memory.
        free_.reserve(chunks_.size() * kChunkSize);
        for (std::uint32_t i = 0; i < kChunkSize; ++i) {
            free_.push_back(first + i);
        }
        return true;
    }

    std::vector<std::unique_ptr<Chunk>> chunks_;
    std::vector<std::uint32_t> free_;
};

}  // namespace berth::internal
