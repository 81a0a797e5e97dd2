// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/workload.h"
#include "bench/reproducer/probe.h"
#include "bench/reproducer/scenario.h"

#include <cstdint>
#include <optional>

namespace berth::bench {

/// What one run of a scenario gave.
struct Measurement {
    Frames before;
    Frames during;
    Frames after;
    double seconds = 0;  // of the part that was measured
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    std::uint64_t without_socket = 0;
    double p50_ns = 0;  // of the bind calls
    double p99_ns = 0;
    double max_ns = 0;
    double occupancy_percent = 0;  // at the end
    std::int64_t peak_rss_kib = 0;
};

/// Empty when it was interrupted.
Result<std::optional<Measurement>> run_scenario(const Scenario& scenario, const RunTimes& times,
                                                std::uint64_t seed, const Environment& environment,
                                                Probe& probe, const Reporter& reporter);

}  // namespace berth::bench
