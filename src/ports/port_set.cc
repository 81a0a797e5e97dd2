// SPDX-License-Identifier: Apache-2.0
#include "src/ports/port_set.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace berth::internal {
namespace {

// The searches exist twice: the baseline instruction set has neither a population count nor a way
// to find the n-th set bit, and both are one instruction on every processor since 2013.
struct BitSearch {
    std::uint32_t (*count)(const std::uint64_t* words, unsigned count);
    unsigned (*select)(const std::uint64_t* words, unsigned count, std::uint32_t rank);
    unsigned (*select_in_group)(const std::uint64_t* sixteen_words, std::uint32_t rank);
};

constexpr unsigned kNotFound = ~0U;

template <class Select>
inline __attribute__((always_inline)) unsigned select_among(const std::uint64_t* words,
                                                            unsigned count, std::uint32_t rank,
                                                            Select select_in_word) {
    for (unsigned i = 0; i < count; ++i) {
        const auto in_word = static_cast<std::uint32_t>(__builtin_popcountll(words[i]));
        if (rank < in_word) {
            return i * 64 + select_in_word(words[i], rank);
        }
        rank -= in_word;
    }
    return kNotFound;
}

inline __attribute__((always_inline)) std::uint32_t count_among(const std::uint64_t* words,
                                                                unsigned count) {
    std::uint32_t total = 0;
    for (unsigned i = 0; i < count; ++i) {
        total += static_cast<std::uint32_t>(__builtin_popcountll(words[i]));
    }
    return total;
}

std::uint32_t count_portable(const std::uint64_t* words, unsigned count) {
    return count_among(words, count);
}

unsigned select_portable(const std::uint64_t* words, unsigned count, std::uint32_t rank) {
    return select_among(words, count, rank, [](std::uint64_t word, std::uint32_t r) {
        for (; r > 0; --r) word &= word - 1;
        return static_cast<unsigned>(std::countr_zero(word));
    });
}

unsigned select_in_group_portable(const std::uint64_t* words, std::uint32_t rank) {
    return select_portable(words, 16, rank);
}

#if defined(__x86_64__)
// Sixteen words without a branch on the rank, see PortSet::draw().
__attribute__((target("popcnt,bmi,bmi2"))) unsigned select_in_group_bmi2(const std::uint64_t* words,
                                                                         std::uint32_t rank) {
    std::uint32_t before[16];
    std::uint32_t total = 0;
#pragma GCC unroll 16
    for (unsigned i = 0; i < 16; ++i) {
        before[i] = total;
        total += static_cast<std::uint32_t>(__builtin_popcountll(words[i]));
    }
    if (rank >= total) {
        return kNotFound;
    }
    unsigned index = 0;
#pragma GCC unroll 16
    for (unsigned i = 1; i < 16; ++i) index += before[i] <= rank ? 1U : 0U;
    const std::uint64_t found = _pdep_u64(std::uint64_t{1} << (rank - before[index]), words[index]);
    return index * 64 + static_cast<unsigned>(__builtin_ctzll(found));
}

__attribute__((target("popcnt"))) std::uint32_t count_popcnt(const std::uint64_t* words,
                                                             unsigned count) {
    return count_among(words, count);
}

__attribute__((target("popcnt,bmi,bmi2"))) unsigned select_bmi2(const std::uint64_t* words,
                                                                unsigned count,
                                                                std::uint32_t rank) {
    for (unsigned i = 0; i < count; ++i) {
        const auto in_word = static_cast<std::uint32_t>(__builtin_popcountll(words[i]));
        if (rank < in_word) {
            const std::uint64_t found = _pdep_u64(std::uint64_t{1} << rank, words[i]);
            return i * 64 + static_cast<unsigned>(__builtin_ctzll(found));
        }
        rank -= in_word;
    }
    return kNotFound;
}

BitSearch choose_search() noexcept {
    const bool has_popcnt = __builtin_cpu_supports("popcnt") != 0;
    const bool has_bmi2 = has_popcnt && __builtin_cpu_supports("bmi2") != 0;
    return {has_popcnt ? count_popcnt : count_portable, has_bmi2 ? select_bmi2 : select_portable,
            has_bmi2 ? select_in_group_bmi2 : select_in_group_portable};
}
#else
BitSearch choose_search() noexcept {
    return {count_portable, select_portable, select_in_group_portable};
}
#endif

const BitSearch& search() noexcept {
    static const BitSearch chosen = choose_search();
    return chosen;
}

// Adds the four 16-bit lanes of a counter word.
constexpr std::uint32_t sum_of_lanes(std::uint64_t lanes) noexcept {
    return static_cast<std::uint32_t>(lanes * 0x0001'0001'0001'0001ULL >> 48);
}

}  // namespace

std::optional<unsigned> select_bit(const std::uint64_t* words, unsigned count,
                                   std::uint32_t rank) noexcept {
    const unsigned index = search().select(words, count, rank);
    return index == kNotFound ? std::nullopt : std::optional(index);
}

std::uint32_t count_bits(const std::uint64_t* words, unsigned count) noexcept {
    return search().count(words, count);
}

unsigned PortSet::release_word(unsigned index, std::uint64_t ports) noexcept {
    const std::uint64_t before = words_[index].fetch_or(ports, std::memory_order_acq_rel);
    const int added = std::popcount(ports & ~before);
    add_to_count(index / kGroupWords, added);
    return static_cast<unsigned>(added);
}

void PortSet::claim_word(unsigned index, std::uint64_t ports) noexcept {
    const std::uint64_t before = words_[index].fetch_and(~ports, std::memory_order_acq_rel);
    add_to_count(index / kGroupWords, -std::popcount(ports & before));
}

// Every step counts how many prefix sums the rank has passed instead of branching on it: the rank
// is random, so each branch would be mispredicted half the time.
MaybePort PortSet::draw(RandomStream& random) const noexcept {
    std::array<std::uint64_t, 16> lanes;
    std::array<std::uint32_t, 16> before;  // [i]: free ports in front of counter word i
    std::uint32_t total = 0;
#pragma GCC unroll 16
    for (unsigned i = 0; i < 16; ++i) {
        lanes[i] = counts_[i].load(std::memory_order_relaxed);
        before[i] = total;
        total += sum_of_lanes(lanes[i]);
    }
    if (total == 0 || total > kPortCount) {
        return {};
    }
    std::uint32_t rank = random.below(total);
    unsigned index = 0;
#pragma GCC unroll 16
    for (unsigned i = 1; i < 16; ++i) index += before[i] <= rank ? 1U : 0U;
    rank -= before[index];
    // Multiplying by a word of ones makes each lane the sum of itself and those below.
    const std::uint64_t up_to_lane = lanes[index] * 0x0001'0001'0001'0001ULL;
    unsigned lane = 0;
#pragma GCC unroll 4
    for (unsigned i = 0; i + 1 < kLanes; ++i) {
        lane += (up_to_lane >> (i * kLaneBits) & 0xffff) <= rank ? 1U : 0U;
    }
    rank -= static_cast<std::uint32_t>((up_to_lane << kLaneBits) >> (lane * kLaneBits) & 0xffff);
    const unsigned first_word = (index * kLanes + lane) * kGroupWords;
    std::array<std::uint64_t, kGroupWords> group;
#pragma GCC unroll 16
    for (unsigned w = 0; w < kGroupWords; ++w) {
        group[w] = words_[first_word + w].load(std::memory_order_relaxed);
    }
    const unsigned found = search().select_in_group(group.data(), rank);
    return found == kNotFound ? MaybePort()
                              : MaybePort(static_cast<std::uint16_t>(first_word * 64 + found));
}

std::uint32_t PortSet::free_count_hint() const noexcept {
    std::uint32_t total = 0;
    for (const auto& lanes : counts_) total += sum_of_lanes(lanes.load(std::memory_order_relaxed));
    return total;
}

std::uint32_t PortSet::free_count() const noexcept {
    std::uint32_t total = 0;
    for (const auto& word : words_) {
        total += static_cast<std::uint32_t>(std::popcount(word.load(std::memory_order_relaxed)));
    }
    return total;
}

void PortSet::recount() noexcept {
    for (unsigned i = 0; i < counts_.size(); ++i) {
        std::uint64_t before = counts_[i].load(std::memory_order_acquire);
        std::uint64_t lanes = 0;
        for (unsigned w = 0; w < kLanes * kGroupWords; ++w) {
            const std::uint64_t bits = words_[i * kLanes * kGroupWords + w].load();
            lanes += static_cast<std::uint64_t>(std::popcount(bits))
                     << (w / kGroupWords * kLaneBits);
        }
        counts_[i].compare_exchange_strong(before, lanes, std::memory_order_relaxed);
    }
}

}  // namespace berth::internal
