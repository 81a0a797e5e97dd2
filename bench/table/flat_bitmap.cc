// SPDX-License-Identifier: Apache-2.0
#include "bench/table/flat_bitmap.h"

#include <algorithm>
#include <bit>

namespace berth::bench {
namespace {

using CountWords = std::uint32_t (*)(const FreeBits& free, std::uint32_t begin,
                                     std::uint32_t end) noexcept;

__attribute__((always_inline)) inline std::uint32_t count_words(const FreeBits& free,
                                                                std::uint32_t begin,
                                                                std::uint32_t end) noexcept {
    int total = 0;
    for (std::uint32_t word = begin; word < end; ++word) {
        total += __builtin_popcountll(free.word(word));
    }
    return static_cast<std::uint32_t>(total);
}

std::uint32_t count_portable(const FreeBits& free, std::uint32_t begin,
                             std::uint32_t end) noexcept {
    return count_words(free, begin, end);
}

#if defined(__x86_64__)
__attribute__((target("popcnt"))) std::uint32_t count_popcnt(const FreeBits& free,
                                                             std::uint32_t begin,
                                                             std::uint32_t end) noexcept {
    return count_words(free, begin, end);
}
#endif

// The same means as berth's own search has: the comparison is of the structures.
CountWords choose_counter() noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("popcnt") != 0) {
        return count_popcnt;
    }
#endif
    return count_portable;
}

const CountWords kCountFree = choose_counter();

}  // namespace

std::optional<std::uint32_t> FlatBitmap::take(internal::RandomStream& random) noexcept {
    for (unsigned probe = 0; probe < kProbes; ++probe) {
        const std::uint32_t index = random.below(free_.count());
        if (free_.claim(index)) {
            return index;
        }
    }
    for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {
        const std::uint32_t total = count_blocks();
        if (total == 0) {
            return std::nullopt;
        }
        if (const auto index = claim_rank(random.below(total))) {
            return index;
        }
    }
    return claim_first();
}

std::uint32_t FlatBitmap::count_blocks() noexcept {
    const std::uint32_t blocks = (free_.word_count() + kBlockWords - 1) / kBlockWords;
    std::uint32_t total = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) {
        const std::uint32_t begin = block * kBlockWords;
        const std::uint32_t end = std::min(begin + kBlockWords, free_.word_count());
        const std::uint32_t in_block = kCountFree(free_, begin, end);
        counts()[block] = static_cast<std::uint16_t>(in_block);
        total += in_block;
    }
    return total;
}

std::optional<std::uint32_t> FlatBitmap::claim_rank(std::uint32_t rank) noexcept {
    std::uint32_t block = 0;
    while (rank >= counts()[block]) {
        rank -= counts()[block++];
    }
    for (std::uint32_t word = block * kBlockWords; word < free_.word_count(); ++word) {
        const std::uint64_t bits = free_.word(word);
        const auto in_word = static_cast<std::uint32_t>(std::popcount(bits));
        if (rank < in_word) {
            const std::uint32_t index = word * 64 + select_bit(bits, rank);
            return free_.claim(index) ? std::optional(index) : std::nullopt;
        }
        rank -= in_word;
    }
    return std::nullopt;
}

std::optional<std::uint32_t> FlatBitmap::claim_first() noexcept {
    for (std::uint32_t index = 0; index < free_.count(); ++index) {
        if (free_.claim(index)) {
            return index;
        }
    }
    return std::nullopt;
}

}  // namespace berth::bench
