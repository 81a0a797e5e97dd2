// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ctime>

namespace berth::internal {

/// CLOCK_MONOTONIC_COARSE in milliseconds: the tick's time, a few nanoseconds to read, up to 10 ms
/// behind. For rest periods and rate limits.
inline std::uint64_t coarse_now_ms() noexcept {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000 +
           static_cast<std::uint64_t>(time.tv_nsec) / 1'000'000;
}

/// CLOCK_BOOTTIME in nanoseconds: goes on during suspend, is the same in every process.
inline std::uint64_t boot_now_ns() noexcept {
    timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace berth::internal
