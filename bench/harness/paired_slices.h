// SPDX-License-Identifier: Apache-2.0
#pragma once

// Comparing programs on a machine whose speed drifts. All of them are alive at once and take turns
// in slices of some 20 to 80 milliseconds, in another random order each round. What is given is
// the median over the rounds of the ratio within a round: it holds to a few per cent where runs one
// after the other differ by 40.

#include "bench/harness/row.h"
#include "bench/harness/workload.h"

#include <berth/error.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

namespace berth::bench {

/// monostate for one that was not measured.
Value to_value(std::optional<double> figure);
Value to_value(std::optional<std::int64_t> figure);

/// One figure of one contender, by round.
class SliceSeries {
public:
    void set(std::size_t round, double value);

    bool is_empty() const noexcept { return count_ == 0; }
    std::size_t count() const noexcept { return count_; }
    // monostate without values, or without a round that both have.
    Value median() const;
    Value spread_percent() const;
    Value ratio_to(const SliceSeries& other) const;
    Value excess_over(const SliceSeries& other) const;

private:
    /// combine(own, other) for each round that both have.
    template <class Combine>
    std::vector<double> paired(const SliceSeries& other, Combine combine) const;
    std::vector<double> values() const;

    std::vector<double> by_round_;  // NaN: not measured
    std::size_t count_ = 0;
};

struct RoundLimits {
    unsigned least_count = 3;
    unsigned most_count = 90;
    std::uint64_t time_limit_ns = 20'000'000'000;

    /// From --repeats, which fixes the count, and --seconds, which is the time for them all.
    static RoundLimits from(const Selection& selection, double seconds);
};

/// slice(contender, round) for each contender in each round. Ends early on Ctrl-C.
/// **Errors:** those of a slice, which end it.
Result<void> run_rounds(std::size_t contender_count, const RoundLimits& limits,
                        std::mt19937_64& random, const Reporter& reporter,
                        const std::function<Result<void>(std::size_t, std::size_t)>& slice);

}  // namespace berth::bench
