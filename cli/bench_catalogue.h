// SPDX-License-Identifier: Apache-2.0
#pragma once

// The benches that `berth bench` knows: what each runs and which options it understands.

#include "bench/harness/workload.h"
#include "bench/programs/program.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

struct BenchEntry {
    std::string_view name;
    std::string_view description;
    bench::Workload run;
    std::span<const std::string_view> (*allocators)();  // empty: it compares programs instead
    std::vector<std::string_view> options;  // names without dashes, beside the common ones
    std::vector<Protocol> protocols;        // that it can measure; empty: it opens no socket
    std::string_view longest;               // how long it takes at most, for people
    std::span<const std::string_view> (*programs)() = bench::program_names;
};

/// In the order in which `berth bench` alone runs them.
const std::vector<BenchEntry>& bench_catalogue();
/// Null when there is none of that name.
const BenchEntry* find_bench(std::string_view name);

}  // namespace berth::cli
