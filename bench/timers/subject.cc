// SPDX-License-Identifier: Apache-2.0
#include "bench/timers/subject.h"

#include <cerrno>
#include <ctime>

namespace berth::bench {
namespace {

// Some loops look at CLOCK_MONOTONIC_COARSE, which may be 10 ms behind, and round up.
constexpr std::uint64_t kMarginNs = 12'000'000;

}  // namespace

void TimerSubject::sleep_past(std::uint64_t window_ns) noexcept {
    const std::uint64_t sleep_ns = window_ns + kMarginNs;
    timespec left{.tv_sec = static_cast<std::time_t>(sleep_ns / 1'000'000'000),
                  .tv_nsec = static_cast<long>(sleep_ns % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

}  // namespace berth::bench
