// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bytes that the workloads send, so that what arrives can be checked: any byte that is lost,
// doubled or out of place shows. The pattern is periodic and small, so that it stays in the cache,
// and its period is a whole number of pages but no power of two, so that no usual size of a buffer
// is a multiple of it.

#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::bench {

inline constexpr std::size_t kPatternPeriod = std::size_t{13} * 4096;

/// Where in the period a stream's byte `offset` lies.
constexpr std::size_t pattern_phase(std::size_t stream, std::uint64_t offset) noexcept {
    constexpr std::uint64_t kPagesBetweenStreams = 5;
    return (offset + stream * kPagesBetweenStreams * 4096) % kPatternPeriod;
}

/// One period, page-aligned.
std::span<const std::byte, kPatternPeriod> pattern() noexcept;

/// Whether `data` is what a stream has from `offset` on. Looks at the first and last bytes and at
/// eight bytes of each page between: cheap against receiving them.
bool pattern_matches(std::size_t stream, std::uint64_t offset,
                     std::span<const std::byte> data) noexcept;

}  // namespace berth::bench
