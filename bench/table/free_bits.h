// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bitmap under three of the alternatives: bit set = free, one atomic operation to claim.

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace berth::bench {

class FreeBits {
public:
    explicit FreeBits(std::uint32_t count)
        : count_(count),
          word_count_((count + 63) / 64),
          words_(std::make_unique<std::atomic<std::uint64_t>[]>(word_count_)) {
        for (std::uint32_t index = 0; index < count; ++index) {
            release(index);
        }
    }

    std::uint32_t count() const noexcept { return count_; }
    std::uint32_t word_count() const noexcept { return word_count_; }
    std::uint64_t word(std::uint32_t index) const noexcept {
        return words_[index].load(std::memory_order_relaxed);
    }

    bool claim(std::uint32_t index) noexcept {
        const std::uint64_t bit = std::uint64_t{1} << (index % 64);
        return (word(index / 64) & bit) != 0 &&
               (words_[index / 64].fetch_and(~bit, std::memory_order_acq_rel) & bit) != 0;
    }

    void release(std::uint32_t index) noexcept {
        words_[index / 64].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_acq_rel);
    }

private:
    std::uint32_t count_;
    std::uint32_t word_count_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

/// The position of the set bit of `word` with `rank` set bits below it. `rank` < popcount(word).
inline unsigned select_bit(std::uint64_t word, unsigned rank) noexcept {
    unsigned base = 0;
    for (unsigned width = 32; width != 0; width /= 2) {
        const std::uint64_t low = word & ((std::uint64_t{1} << width) - 1);
        const auto below = static_cast<unsigned>(std::popcount(low));
        if (rank < below) {
            word = low;
        } else {
            rank -= below;
            word >>= width;
            base += width;
        }
    }
    return base;
}

}  // namespace berth::bench
