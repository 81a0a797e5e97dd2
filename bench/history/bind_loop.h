// SPDX-License-Identifier: Apache-2.0
#pragma once

// The reproducer's loop over a model: each thread binds new sockets, remembers them by port and
// closes the neighbours of each when it has them; a bind that finds no port is counted and answered
// by closing one of the thread's own. It starts with every port taken.

#include "bench/history/port_model.h"
#include "bench/reproducer/latency_histogram.h"

#include <chrono>
#include <cstdint>

namespace berth::bench {

struct LoopOptions {
    unsigned threads = 64;
    std::chrono::nanoseconds warm_up{};
    std::chrono::nanoseconds duration{};
};

struct LoopResult {
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    /// Binds that the end of the round cut off. They are among the times with what they had
    /// lasted until then.
    std::uint64_t unfinished = 0;
    double seconds = 0;
    LatencyHistogram times;
};

/// `sockets` are all of the model's; the loop closes them.
void run_bind_loop(PortModel& model, const std::vector<ModelSocket*>& sockets,
                   const LoopOptions& options, LoopResult& result);

}  // namespace berth::bench
