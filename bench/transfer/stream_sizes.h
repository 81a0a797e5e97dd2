// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::bench {

/// 100,000 KiB, as in the mail of 2009.
inline constexpr std::uint64_t kTransferSize = std::uint64_t{100'000} * 1'024;

/// The part of a transfer that one of `count` streams carries: whole pages, the first ones one more
/// than the last, so that what the receiver copies starts as well aligned in every stream.
constexpr std::uint64_t stream_size(std::size_t stream, std::size_t count,
                                    std::uint64_t total = kTransferSize) noexcept {
    constexpr std::uint64_t kPage = 4'096;
    const std::uint64_t pages = total / kPage;
    return (pages / count + (stream < pages % count ? 1 : 0)) * kPage;
}

}  // namespace berth::bench
