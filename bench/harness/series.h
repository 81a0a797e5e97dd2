// SPDX-License-Identifier: Apache-2.0
#pragma once

// What was measured for one variant, round by round. Compared variants take turns within a round,
// so a round's ratio of two variants is free of whatever disturbed that moment; the figure given is
// the median over the rounds.

#include "bench/harness/row.h"

#include <cstdint>
#include <string>
#include <vector>

namespace berth::bench {

/// The calls of one variant in one round, in nanoseconds each.
struct Batch {
    std::vector<std::uint64_t> succeeded_ns;
    std::vector<std::uint64_t> failed_ns;
    std::string first_failure;  // why the first failing call failed; empty when none did

    std::size_t size() const noexcept { return succeeded_ns.size() + failed_ns.size(); }
};

/// When a batch ends: at the time limit, but not before the least count and not after the most.
struct BatchLimits {
    std::size_t least_count = 5;
    std::size_t most_count = 200;
    std::uint64_t time_limit_ns = 20'000'000;

    bool is_over(std::size_t count, std::uint64_t elapsed_ns) const noexcept {
        return count >= most_count || (count >= least_count && elapsed_ns >= time_limit_ns);
    }
};

class Series {
public:
    /// Batches must be added in the order of the rounds, one for each.
    void add(Batch batch);

    bool is_empty() const noexcept { return p50_ns_.empty(); }
    std::int64_t succeeded_count() const noexcept { return succeeded_count_; }
    std::int64_t failed_count() const noexcept { return failed_count_; }
    const std::string& first_failure() const noexcept { return first_failure_; }
    /// The median of the rounds' medians. Of the succeeding calls; of the failing ones in rounds
    /// where none succeeds.
    double p50_ns() const;

    /// The median of the rounds' own ratios; monostate when there is no round to compare.
    Value ratio_to(const Series& other) const;
    /// p50_ns, p99_ns, max_ns, succeeded, failed, rounds, spread_percent.
    void add_figures(Row& row) const;

private:
    std::vector<double> p50_ns_;  // index = round
    std::vector<double> p99_ns_;
    std::uint64_t max_ns_ = 0;
    std::int64_t succeeded_count_ = 0;
    std::int64_t failed_count_ = 0;
    std::string first_failure_;
};

}  // namespace berth::bench
