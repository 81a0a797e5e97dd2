// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace berth::bench {
namespace {

constexpr std::size_t kSampleSize = 8;
constexpr std::size_t kSampleDistance = 4096;

struct alignas(4096) Pattern {
    std::array<std::byte, kPatternPeriod> bytes;
};

/// The finalizer of SplitMix64: neighbouring words have nothing in common.
constexpr std::uint64_t mixed(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9;
    value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11eb;
    return value ^ (value >> 31);
}

Pattern make_pattern() noexcept {
    Pattern pattern;
    for (std::size_t i = 0; i < kPatternPeriod; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = mixed((i + 1) * 0x9e37'79b9'7f4a'7c15);
        std::memcpy(pattern.bytes.data() + i, &word, sizeof(word));
    }
    return pattern;
}

const Pattern& the_pattern() noexcept {
    static const Pattern pattern = make_pattern();
    return pattern;
}

bool sample_matches(std::size_t phase, std::span<const std::byte> sample) noexcept {
    const auto& bytes = the_pattern().bytes;
    const std::size_t before_wrap = std::min(sample.size(), kPatternPeriod - phase);
    return std::memcmp(sample.data(), bytes.data() + phase, before_wrap) == 0 &&
           std::memcmp(sample.data() + before_wrap, bytes.data(), sample.size() - before_wrap) == 0;
}

}  // namespace

std::span<const std::byte, kPatternPeriod> pattern() noexcept { return the_pattern().bytes; }

bool pattern_matches(std::size_t stream, std::uint64_t offset,
                     std::span<const std::byte> data) noexcept {
    const auto matches_at = [&](std::size_t position) {
        const std::size_t size = std::min(kSampleSize, data.size() - position);
        return sample_matches(pattern_phase(stream, offset + position),
                              data.subspan(position, size));
    };
    for (std::size_t position = 0; position < data.size(); position += kSampleDistance) {
        if (!matches_at(position)) {
            return false;
        }
    }
    return data.size() < kSampleSize || matches_at(data.size() - kSampleSize);
}

}  // namespace berth::bench
