// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/job_comparison.h"

#include <string_view>

namespace berth::bench {

/// How many connections a client, or a connecting load, has under way at once.
inline constexpr unsigned kParallelConnects = 16;

struct ConnectScene {
    Address server;  // accepts, and closes when its peer does
    bool uses_port_table = false;
    unsigned connection_count = 0;
};

/// A program connects and closes, over and over. ChildReport::values: connected, failed.
Result<JobSlice> run_connect_slice(const Program& program, const ConnectScene& scene, bool counts);

}  // namespace berth::bench
