// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one connection costs while more and more ports are taken.

#include "bench/connect/connect_plan.h"

namespace berth::bench {

Result<void> measure_connect_by_occupancy(const ConnectPlan& plan, const Environment& environment,
                                          Family family, unsigned destination_count,
                                          Reporter& reporter);

}  // namespace berth::bench
