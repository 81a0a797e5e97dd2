// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one run of `berth bench connect` will measure.

#include "bench/connect/worker.h"
#include "bench/harness/workload.h"

#include <berth/error.h>

#include <string>
#include <vector>

namespace berth::bench {

struct ConnectPlan {
    std::vector<Family> families;
    std::vector<unsigned> destination_counts;
    std::vector<std::string> allocators;
    std::vector<double> occupancies;
    unsigned repeats = 0;             // rounds at each occupancy
    unsigned exhaustion_repeats = 0;  // rounds of runs until exhaustion
    double seconds = 0;               // the most for one run until exhaustion
    std::uint64_t seed = 0;
};

/// **Errors:** unsupported, when nothing of what is wanted can be measured here.
Result<ConnectPlan> make_connect_plan(const Selection& selection, const Environment& environment,
                                      Reporter& reporter);

/// bind() chooses other ports first than connect() does, so it gets a range that was filled as it
/// would have filled it itself.
FillOrder fill_order_of(const std::string& allocator);

/// The setups of the workers that measure by occupancy: one for each fill order that is needed.
std::vector<WorkerSetup> make_setups(const ConnectPlan& plan, const Environment& environment,
                                     Family family, unsigned destination_count);

}  // namespace berth::bench
