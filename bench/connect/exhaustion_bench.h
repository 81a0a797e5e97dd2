// SPDX-License-Identifier: Apache-2.0
#pragma once

// How long it takes to open connections until no port is left, and how many there are then.

#include "bench/connect/connect_plan.h"

namespace berth::bench {

Result<void> measure_connect_until_exhaustion(const ConnectPlan& plan,
                                              const Environment& environment, Family family,
                                              unsigned destination_count, Reporter& reporter);

}  // namespace berth::bench
