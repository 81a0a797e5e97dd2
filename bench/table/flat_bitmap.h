// SPDX-License-Identifier: Apache-2.0
#pragma once

// A bitmap without counters: 16 uniform probes, then count all words and take the port of a random
// rank. Uniform and lock-free; the counting costs more the fuller the table.

#include "bench/table/free_bits.h"
#include "src/base/random.h"

#include <array>
#include <cstdint>
#include <optional>

namespace berth::bench {

class FlatBitmap {
public:
    explicit FlatBitmap(std::uint32_t count) : free_(count) {}

    std::optional<std::uint32_t> take(internal::RandomStream& random) noexcept;
    void release(std::uint32_t index) noexcept { free_.release(index); }

private:
    static constexpr unsigned kProbes = 16;
    static constexpr unsigned kAttempts = 64;
    static constexpr std::uint32_t kBlockWords = 8;
    static constexpr std::uint32_t kMaxBlocks = 65'536 / 64 / kBlockWords;

    using Counts = std::array<std::uint16_t, kMaxBlocks>;

    /// Counts the free ports of each block of words; returns their sum.
    std::uint32_t count_blocks() noexcept;

    /// Empty when others took ports meanwhile and the rank is gone.
    std::optional<std::uint32_t> claim_rank(std::uint32_t rank) noexcept;
    std::optional<std::uint32_t> claim_first() noexcept;

    static Counts& counts() noexcept {
        thread_local Counts counts;
        return counts;
    }

    FreeBits free_;
};

}  // namespace berth::bench
