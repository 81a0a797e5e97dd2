// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers that a seed decides: SplitMix64. Not for anything that must be unpredictable.
//
// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".

#include <cstdint>

namespace berth::internal::simulated {

class SeededRandom {
public:
    explicit constexpr SeededRandom(std::uint64_t seed) noexcept : state_(seed) {}

    constexpr std::uint64_t next() noexcept {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        return mixed ^ (mixed >> 31);
    }
    /// 0 .. bound − 1; `bound` >= 1.
    constexpr std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
    /// True with this probability. Draws nothing for a probability of 0, so that a fault that is
    /// switched off does not change the others.
    constexpr bool chance(double probability) noexcept {
        return probability > 0 && static_cast<double>(next() >> 11) < probability * 0x1p53;
    }

private:
    std::uint64_t state_;
};

}  // namespace berth::internal::simulated
