// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/system_calls.h"

#include <algorithm>
#include <cstdint>

namespace berth::internal {

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

/// CLOCK_MONOTONIC in nanoseconds, of the simulation when there is one.
inline std::uint64_t monotonic_now_ns() noexcept {
    timespec time;
    calls().clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

/// How long a waiting system call may wait, in the form it wants. Reads the clock only when there
/// is something to subtract.
class WaitTime {
public:
    explicit WaitTime(std::uint64_t deadline_ns) noexcept : is_endless_(deadline_ns == kNever) {
        if (is_endless_ || deadline_ns == 0) {
            return;
        }
        const std::uint64_t now_ns = monotonic_now_ns();
        const std::uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        time_.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000);
        time_.tv_nsec = static_cast<long>(left_ns % 1'000'000'000);
    }

    /// Null: for ever.
    const timespec* get() const noexcept { return is_endless_ ? nullptr : &time_; }

    /// Rounded up, at most an hour; -1: for ever.
    int milliseconds() const noexcept {
        constexpr time_t kMostSeconds = 3600;
        if (is_endless_) {
            return -1;
        }
        const auto seconds = static_cast<int>(std::min(time_.tv_sec, kMostSeconds));
        return seconds * 1000 + static_cast<int>((time_.tv_nsec + 999'999) / 1'000'000);
    }

private:
    timespec time_{};
    bool is_endless_;
};

}  // namespace berth::internal
