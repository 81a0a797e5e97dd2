// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/workload.h"

#include <berth/error.h>

#include <cstdint>

namespace berth::bench {

/// run_timers() with another number of timers, which fire within `window_ns`.
Result<void> run_timers_of(std::uint32_t count, std::uint64_t window_ns, const Selection& selection,
                           Reporter& reporter);

}  // namespace berth::bench
