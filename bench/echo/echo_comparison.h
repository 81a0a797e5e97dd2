// SPDX-License-Identifier: Apache-2.0
#pragma once

// Echo servers compared: what a message costs each of them, in paired slices; then, outside of
// these, its system calls and the latencies at one rate for all.

#include "bench/echo/echo_pair.h"
#include "bench/harness/contenders.h"
#include "bench/harness/paired_slices.h"
#include "bench/harness/workload.h"

#include <random>
#include <string>
#include <vector>

namespace berth::bench {

struct EchoCell {
    unsigned active = 1;
    unsigned idle = 0;
    bool has_latencies = false;
};

struct EchoPlan {
    std::string_view bench;  // of the rows: "echo", "idle"
    std::vector<Contender> contenders;
    std::vector<EchoCell> cells;
    std::chrono::milliseconds slice{25};
    RoundLimits limits;  // of one cell
    std::uint64_t seed = 0;
};

/// A program that fails is noted, and left out of what follows.
Result<void> compare_echo_servers(const EchoPlan& plan, const Environment& environment,
                                  Reporter& reporter);

/// Those of `counts` that this host has ports and descriptors for; the others are noted, as missing
/// from the result when the user named them.
std::vector<unsigned> possible_connections(std::vector<unsigned> counts, unsigned beside,
                                           bool were_named, const Environment& environment,
                                           Reporter& reporter);

/// How many programs with so many connections each may be alive at once.
std::size_t group_capacity(unsigned connections) noexcept;

}  // namespace berth::bench
