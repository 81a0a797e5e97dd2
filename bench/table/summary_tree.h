// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tree of bitmaps, 64 children a node, a bit set where something below is free: three words are
// read however full the table is. At each level the first set bit at or after a random position is
// followed, which favours ports in sparse words and behind gaps. A summary bit can be wrong for a
// moment while others take and release in the same word; then a take may fail though a port is
// free.

#include "src/base/random.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

namespace berth::bench {

class SummaryTree {
public:
    explicit SummaryTree(std::uint32_t count) {
        for (std::uint32_t index = 0; index < count; ++index) {
            release(index);
        }
    }

    std::optional<std::uint32_t> take(internal::RandomStream& random) noexcept {
        for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {
            const std::uint64_t top = top_.load(std::memory_order_acquire);
            if (top == 0) {
                return std::nullopt;
            }
            const std::uint32_t positions = random.next();
            const std::uint32_t group = next_set(top, positions % 64);
            const std::uint64_t words = groups_[group].load(std::memory_order_acquire);
            if (words == 0) {
                continue;
            }
            const std::uint32_t word = group * 64 + next_set(words, positions / 64 % 64);
            const std::uint64_t bits = words_[word].load(std::memory_order_acquire);
            if (bits == 0) {
                continue;
            }
            const std::uint32_t index = word * 64 + next_set(bits, positions / 4096 % 64);
            if (claim(index)) {
                return index;
            }
        }
        return std::nullopt;
    }

    void release(std::uint32_t index) noexcept {
        set(words_[index / 64], index % 64);
        set(groups_[index / 4096], index / 64 % 64);
        set(top_, index / 4096);
    }

private:
    using Word = std::atomic<std::uint64_t>;
    static constexpr unsigned kAttempts = 1'000;

    static void set(Word& word, std::uint32_t bit) noexcept {
        word.fetch_or(std::uint64_t{1} << bit, std::memory_order_acq_rel);
    }
    /// Clears a bit; true when it was the word's last.
    static bool clear(Word& word, std::uint32_t bit) noexcept {
        const std::uint64_t mask = std::uint64_t{1} << bit;
        return word.fetch_and(~mask, std::memory_order_acq_rel) == mask;
    }
    static std::uint32_t next_set(std::uint64_t word, std::uint32_t from) noexcept {
        const std::uint64_t rotated = std::rotr(word, static_cast<int>(from));
        return (static_cast<std::uint32_t>(std::countr_zero(rotated)) + from) % 64;
    }

    bool claim(std::uint32_t index) noexcept {
        const std::uint64_t mask = std::uint64_t{1} << (index % 64);
        const std::uint64_t before = words_[index / 64].fetch_and(~mask, std::memory_order_acq_rel);
        if ((before & mask) == 0) {
            return false;
        }
        if (before == mask) {
            note_empty(index);
        }
        return true;
    }

    /// The word of `index` became empty: clears the summaries, and sets them again when somebody
    /// released a port of the same word meanwhile.
    void note_empty(std::uint32_t index) noexcept {
        Word& word = words_[index / 64];
        Word& group = groups_[index / 4096];
        if (clear(group, index / 64 % 64) && clear(top_, index / 4096) &&
            group.load(std::memory_order_acquire) != 0) {
            set(top_, index / 4096);
        }
        if (word.load(std::memory_order_acquire) != 0) {
            set(group, index / 64 % 64);
            set(top_, index / 4096);
        }
    }

    std::array<Word, 1024> words_{};
    std::array<Word, 16> groups_{};
    Word top_{0};
};

}  // namespace berth::bench
