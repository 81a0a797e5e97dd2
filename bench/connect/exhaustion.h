// SPDX-License-Identifier: Apache-2.0
#pragma once

// One run of `berth bench connect`: connections to all destinations in turn until no port is left.

#include "bench/connect/connector.h"
#include "bench/harness/workload.h"

#include <cstdint>
#include <string>
#include <vector>

namespace berth::bench {

enum class StoppedBy : std::uint8_t { exhaustion, time, limit, failure };

struct ExhaustionLimits {
    std::uint64_t time_limit_ns = 0;
    std::uint64_t most_connections = 0;  // where a part of the host's ports must stay free
    std::size_t descriptor_limit = 0;    // per process; more connections go to helpers
};

struct Exhaustion {
    std::uint64_t total_ns = 0;  // from the first socket() to the last connection, wall clock
    std::int64_t peak_rss_kib = 0;
    StoppedBy stopped_by = StoppedBy::exhaustion;
    Batch calls;  // failed_ns: after the exhaustion
};

/// **Errors:** descriptors_exhausted, system, when a socket or a helper cannot be made. A refused
/// connection is no error but StoppedBy::failure.
Result<Exhaustion> connect_until_exhaustion(Connector& connector,
                                            const std::vector<Address>& destinations,
                                            const ExhaustionLimits& limits);

}  // namespace berth::bench
