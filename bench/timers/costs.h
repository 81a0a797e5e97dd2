// SPDX-License-Identifier: Apache-2.0
#pragma once

// One round of `berth bench timers`: what is done to every program's timers, and what it cost.

#include "bench/timers/subject.h"

#include <berth/error.h>

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace berth::bench {

/// The same for all programs of a round.
struct TimerPlan {
    std::vector<std::uint64_t> timeouts_ns;        // one to two minutes; index = timer
    std::vector<Rearm> rearms;                     // each timer once, to a minute later or more
    std::vector<std::uint32_t> cancels;            // each timer once
    std::vector<std::uint64_t> short_timeouts_ns;  // for firing, at most window_ns; index = timer
    std::uint64_t window_ns = 0;
};

TimerPlan make_timer_plan(std::uint32_t count, std::uint64_t window_ns, std::mt19937_64& random);

/// CPU time for each timer.
struct TimerCosts {
    double schedule_ns = 0;
    double cancel_ns = 0;
    double rearm_ns = 0;
    double fire_ns = 0;
};

/// **Errors:** system when not every timer fired once. `program` is for the message.
Result<TimerCosts> measure_timers(std::string_view program, TimerSubject& subject,
                                  const TimerPlan& plan);

}  // namespace berth::bench
