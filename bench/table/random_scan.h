// SPDX-License-Identifier: Apache-2.0
#pragma once

// RFC 6056, algorithm 1: a random start, then the first free port at or after it. What FreeBSD,
// OpenBSD and gVisor do. A free port behind a run of taken ones is chosen as often as the run is
// long, and near exhaustion the scan is long.

#include "bench/table/free_bits.h"
#include "src/base/random.h"

#include <bit>
#include <cstdint>
#include <optional>

namespace berth::bench {

class RandomScan {
public:
    explicit RandomScan(std::uint32_t count) : free_(count) {}

    std::optional<std::uint32_t> take(internal::RandomStream& random) noexcept {
        const std::uint32_t start = random.below(free_.count());
        std::uint64_t mask = ~std::uint64_t{0} << (start % 64);
        // One step more than there are words: the first word's lower part comes last.
        for (std::uint32_t step = 0; step <= free_.word_count(); ++step) {
            const std::uint32_t word = (start / 64 + step) % free_.word_count();
            for (std::uint64_t bits = free_.word(word) & mask; bits != 0; bits &= bits - 1) {
                const auto index = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
                if (free_.claim(index)) {
                    return index;
                }
            }
            mask = ~std::uint64_t{0};
        }
        return std::nullopt;
    }

    void release(std::uint32_t index) noexcept { free_.release(index); }

private:
    FreeBits free_;
};

}  // namespace berth::bench
