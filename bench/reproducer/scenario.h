// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/workload.h"

#include <optional>
#include <string>
#include <vector>

namespace berth::bench {

/// With a demand each worker keeps so many sockets at most.
constexpr unsigned kHeldByWorker = 2;

/// One row of the reproducer: who chooses the ports, and the load.
struct Scenario {
    Protocol protocol = Protocol::udp;
    Family family = Family::ipv4;
    std::string allocator;
    WorkerMode mode = WorkerMode::processes;
    unsigned workers = 64;
    double rate = 0;               // binds per second in all; 0: as fast as possible
    unsigned held_port_count = 0;  // by the holder

    bool is_spin() const { return allocator == "spin"; }
    bool is_paced() const { return rate > 0; }
};

/// How long the parts of one run take, in seconds.
struct RunTimes {
    double before = 1;
    double warm_up = 1;
    double during = 4;
    double after = 1;
};

struct ReproducerPlan {
    std::vector<Scenario> scenarios;
    RunTimes times;
    unsigned rounds = 2;
};

/// **Errors:** invalid_argument for an allocator that cannot run in the mode asked for, a rate or
/// a part of the range that is out of bounds; what choosing families answers.
Result<ReproducerPlan> plan_reproducer(const Selection& selection, const Environment& environment,
                                       Reporter& reporter);

}  // namespace berth::bench
