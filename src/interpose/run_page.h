// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one `berth run` and the programs that it started share, beside the two port tables: what was
// asked for, what was counted, the events for the log, the destinations of TCP connections. It lies
// in a file that the supervisor makes before the program starts and removes after it has ended. Its
// path is in one environment variable; a program without it is left alone.

#include "src/interpose/call_statistics.h"
#include "src/interpose/destination_pool.h"
#include "src/interpose/event_ring.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace berth::internal {

/// Names the run page's file to the programs of a run.
constexpr const char* kRunVariable = "BERTH_RUN";

/// Set by the supervisor before the program starts; never changed.
struct RunOptions {
    std::array<std::array<char, 128>, 2> table_paths;  // index: Protocol
    std::uint32_t wait_ms;        // how long a call waits for a port; 0: it fails at once
    std::uint32_t per_process;    // ports that one process may hold; 0: no limit
    std::uint32_t takes_another;  // an explicit bind to a taken port gets another one
    std::uint32_t is_counting;    // --stats
    std::uint32_t is_logging;     // --log
    /// IP_LOCAL_PORT_RANGE exists and reaches the tables' range: a connect() can be told which port
    /// to take without binding it.
    std::uint32_t can_narrow;
    std::uint32_t has_own_range;   // --range: not the one that the kernel would choose from
    std::uint32_t has_exclusions;  // --exclude: of which the kernel knows nothing
};

struct RunPage {
    static constexpr std::uint64_t kMagic = 0x6e75'7268'7472'6562;  // "berthrun"
    static constexpr std::uint32_t kVersion = 1;

    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t size;
    RunOptions options;
    /// A futex that the supervisor sleeps on; changed to wake it.
    alignas(64) std::atomic<std::uint32_t> wake;
    alignas(64) CallStatistics statistics;
    EventRing events;
    DestinationPool destinations;
};

}  // namespace berth::internal
