// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory that a readiness engine reads into and lends: page-aligned chunks. The usual reader
// gives back what it got before the next read, so the same chunk, still in the cache, serves every
// socket. Who keeps a piece keeps its chunk; the next read then goes behind it, on a page of its
// own (the kernel copies 64 KiB and more 4 to 6 times slower to an address just behind a page's
// start), so that a kept piece never costs more than a page and the rest of its chunk's room.

#include <berth/lent.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace berth::internal {

class LentPool final : public Lender {
public:
    static constexpr std::size_t kChunkSize = 256 * 1024;
    /// What each read is offered. (Twice as much makes it slower: the data of the other sockets
    /// leaves the cache meanwhile.)
    static constexpr std::size_t kRoom = 64 * 1024;

    LentPool() noexcept = default;
    ~LentPool();
    LentPool(const LentPool&) = delete;
    LentPool& operator=(const LentPool&) = delete;

    /// Room for one read, until the next call; empty when there is no memory.
    std::span<std::byte> room() noexcept;
    /// The first `size` bytes of the last room(), lent. size > 0.
    Lent lend(std::size_t size) noexcept;
    void take_back(std::uint32_t id) noexcept override;

    std::uint32_t lent_count() const noexcept { return lent_count_; }

private:
    struct Chunk {
        std::byte* memory = nullptr;
        std::uint32_t lent_count = 0;
        std::uint32_t used = 0;  // bytes from the start that may be lent
    };

    bool find_chunk() noexcept;

    std::vector<Chunk> chunks_;
    std::vector<std::uint32_t> free_;
    std::uint32_t current_ = kNoChunk;
    std::uint32_t lent_count_ = 0;

    static constexpr std::uint32_t kNoChunk = ~0U;
};

}  // namespace berth::internal
