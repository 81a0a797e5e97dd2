// SPDX-License-Identifier: Apache-2.0
#include "src/ports/port_set.h"

#include "src/base/cpu_features.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace berth::internal {
namespace {

// The searches exist twice: the baseline instruction set has neither a population count nor a way
// to find the n-th set bit, and both are one instruction on every processor since 2013.
using AtomicWord = std::atomic<std::uint64_t>;

struct BitSearch {
    std::uint32_t (*count)(const std::uint64_t* words, unsigned count);
    unsigned (*select)(const std::uint64_t* words, unsigned count, std::uint32_t rank);
    unsigned (*select_in_group)(const AtomicWord* sixteen_words, std::uint32_t rank);
};

constexpr unsigned kNotFound = ~0U;

// Which of four parts a rank falls into; reduces the rank to one within that part.
template <class Size>
inline __attribute__((always_inline)) unsigned choose_of_four(Size size, std::uint32_t& rank) {
    const std::uint32_t before_1 = size(0);
    const std::uint32_t before_2 = before_1 + size(1);
    const std::uint32_t before_3 = before_2 + size(2);
    const std::uint32_t is_past_0 = rank >= before_1 ? 1 : 0;
    const std::uint32_t is_past_1 = rank >= before_2 ? 1 : 0;
    const std::uint32_t is_past_2 = rank >= before_3 ? 1 : 0;
    rank -= (before_1 & (0 - is_past_0)) + ((before_2 - before_1) & (0 - is_past_1)) +
            ((before_3 - before_2) & (0 - is_past_2));
    return is_past_0 + is_past_1 + is_past_2;
}

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

unsigned select_in_group_portable(const AtomicWord* words, std::uint32_t rank) {
    std::array<std::uint64_t, 16> group;
    for (unsigned i = 0; i < 16; ++i) group[i] = words[i].load(std::memory_order_relaxed);
    return select_portable(group.data(), 16, rank);
}

#if defined(__x86_64__)
// Sixteen words without a branch on the rank, see PortSet::draw().
__attribute__((target("popcnt,bmi,bmi2"))) unsigned select_in_group_bmi2(const AtomicWord* words,
                                                                         std::uint32_t rank) {
    const auto count = [words](unsigned i) __attribute__((target("popcnt,bmi,bmi2"))) {
        return static_cast<std::uint32_t>(
            __builtin_popcountll(words[i].load(std::memory_order_relaxed)));
    };
    std::uint32_t quarters[4];
#pragma GCC unroll 4
    for (unsigned q = 0; q < 4; ++q) {
        quarters[q] = (count(4 * q) + count(4 * q + 1)) + (count(4 * q + 2) + count(4 * q + 3));
    }
    if (rank >= quarters[0] + quarters[1] + quarters[2] + quarters[3]) {
        return kNotFound;
    }
    const unsigned quarter = choose_of_four([&](unsigned i) { return quarters[i]; }, rank);
    const unsigned index =
        4 * quarter + choose_of_four([&](unsigned i) { return count(4 * quarter + i); }, rank);
    // Zero when the word has changed meanwhile.
    const std::uint64_t found =
        _pdep_u64(std::uint64_t{1} << (rank % 64), words[index].load(std::memory_order_relaxed));
    return found == 0 ? kNotFound : index * 64 + static_cast<unsigned>(__builtin_ctzll(found));
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
    const bool can_count = has_popcnt();
    const bool can_select = can_count && has_bmi2();
    return {can_count ? count_popcnt : count_portable, can_select ? select_bmi2 : select_portable,
            can_select ? select_in_group_bmi2 : select_in_group_portable};
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
constexpr std::uint32_t lane_of(std::uint64_t lanes, unsigned lane) noexcept {
    return static_cast<std::uint32_t>(lanes >> (lane * 16) & 0xffff);
}

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

// Narrows 64 counters to one in three choices among four: a lane (its sixteen groups together),
// four words, one word. Nothing branches on the rank, which is random, so that a branch would be
// mispredicted half the time, and no choice waits for a long chain of additions.
MaybePort PortSet::draw(RandomStream& random) const noexcept {
    std::array<std::uint64_t, 4> quarters;  // each the sum of four counter words, lane by lane
#pragma GCC unroll 4
    for (unsigned q = 0; q < 4; ++q) {
        quarters[q] = (count_word(4 * q) + count_word(4 * q + 1)) +
                      (count_word(4 * q + 2) + count_word(4 * q + 3));
    }
    const std::uint64_t sums = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
    const std::uint32_t total = sum_of_lanes(sums);
    if (total == 0 || total > kPortCount) {
        return {};
    }
    std::uint32_t rank = random.below(total);
    const unsigned lane = choose_of_four([&](unsigned i) { return lane_of(sums, i); }, rank);
    const unsigned quarter =
        choose_of_four([&](unsigned i) { return lane_of(quarters[i], lane); }, rank);
    const unsigned in_quarter = choose_of_four(
        [&](unsigned i) { return lane_of(count_word(4 * quarter + i), lane); }, rank);
    const unsigned first_word = ((4 * quarter + in_quarter) * kLanes + lane) * kGroupWords;
    const unsigned found = search().select_in_group(&words_[first_word], rank);
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
