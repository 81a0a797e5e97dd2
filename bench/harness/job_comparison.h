// SPDX-License-Identifier: Apache-2.0
#pragma once

// Programs compared by jobs that each run in a process of its own, forked for one slice: a whole
// transfer, some thousand connections, datagrams or posts. The programs take turns as in
// paired_slices.h.

#include "bench/harness/child_job.h"
#include "bench/harness/contenders.h"
#include "bench/harness/paired_slices.h"
#include "bench/harness/workload.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace berth::bench {

/// What a slice brought.
struct JobSlice {
    ChildReport report;
    double unit_count = 1;                           // messages, connections; 1: the job as a whole
    std::optional<std::uint64_t> system_call_count;  // when it was asked for
};

/// What the slices of one program brought; empty series when it has failed.
struct JobResult {
    SliceSeries cpu_ns;                 // for each unit
    SliceSeries real_ns;                // for each unit
    std::array<SliceSeries, 8> values;  // of ChildReport::values
    double user_ns = 0;                 // these in all slices together
    double system_ns = 0;
    double allocation_count = 0;
    double unit_count = 0;
    std::int64_t peak_rss_kib = 0;
    std::optional<double> system_calls;  // for each unit

    /// Nothing when the ticks were too few.
    std::optional<double> user_percent() const noexcept {
        const double sum_ns = user_ns + system_ns;
        return sum_ns > 0 ? std::optional(100.0 * user_ns / sum_ns) : std::nullopt;
    }
};

/// Runs one slice of a program; `counts` asks for its system calls.
using RunJob = std::function<Result<JobSlice>(const Program&, bool counts)>;

/// index = contender. A program that fails is noted with `where`, and left out from then on; one
/// that answers `unsupported` is left out with no word.
/// **Errors:** interrupted.
Result<std::vector<JobResult>> compare_jobs(std::span<const Contender> contenders,
                                            const RoundLimits& limits, std::mt19937_64& random,
                                            const std::string& where, const RunJob& run,
                                            Reporter& reporter);

/// Waits until both sides are at their gates, lets the measured one start and then the other, and
/// waits for its end. `other` may be null.
Result<JobSlice> run_sides(ChildJob& measured, ChildJob* other, bool counts);

/// A figure in nanoseconds as one in milliseconds.
Value to_ms(const Value& ns);

/// System calls and allocations for each unit, by the names given,
/// ratio_to_raw, ratio_to_epoll, spread_percent, rounds, peak_rss_kib.
void add_common_figures(Row& row, std::span<const JobResult> results,
                        std::span<const Contender> contenders, std::size_t index,
                        std::string_view system_calls_name, std::string_view allocations_name);

}  // namespace berth::bench
