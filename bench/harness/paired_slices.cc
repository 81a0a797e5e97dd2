// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/paired_slices.h"

#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace berth::bench {
namespace {

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

Value median_of(std::vector<double> values) {
    return values.empty() ? Value{} : Value{median(std::move(values))};
}

}  // namespace

Value to_value(std::optional<double> figure) { return figure ? Value{*figure} : Value{}; }

Value to_value(std::optional<std::int64_t> figure) { return figure ? Value{*figure} : Value{}; }

void SliceSeries::set(std::size_t round, double value) {
    if (round >= by_round_.size()) {
        by_round_.resize(round + 1, kNotMeasured);
    }
    count_ += std::isnan(by_round_[round]) ? 1U : 0U;
    by_round_[round] = value;
}

std::vector<double> SliceSeries::values() const {
    std::vector<double> found;
    std::ranges::copy_if(by_round_, std::back_inserter(found),
                         [](double value) { return !std::isnan(value); });
    return found;
}

template <class Combine>
std::vector<double> SliceSeries::paired(const SliceSeries& other, Combine combine) const {
    std::vector<double> results;
    const std::size_t rounds = std::min(by_round_.size(), other.by_round_.size());
    for (std::size_t round = 0; round < rounds; ++round) {
        const double result = combine(by_round_[round], other.by_round_[round]);
        if (std::isfinite(result)) {
            results.push_back(result);
        }
    }
    return results;
}

Value SliceSeries::median() const { return median_of(values()); }

Value SliceSeries::spread_percent() const {
    return is_empty() ? Value{} : Value{bench::spread_percent(values())};
}

Value SliceSeries::ratio_to(const SliceSeries& other) const {
    return median_of(paired(other, [](double own, double base) { return own / base; }));
}

Value SliceSeries::excess_over(const SliceSeries& other) const {
    return median_of(paired(other, [](double own, double base) { return own - base; }));
}

RoundLimits RoundLimits::from(const Selection& selection, double seconds) {
    RoundLimits limits;
    limits.time_limit_ns = static_cast<std::uint64_t>(selection.seconds.value_or(seconds) * 1e9);
    if (selection.repeats) {
        limits.most_count = *selection.repeats;
        // With a count alone, the time is what it takes.
        limits.least_count = selection.seconds ? 1 : *selection.repeats;
    }
    limits.least_count = std::min(limits.least_count, limits.most_count);
    return limits;
}

Result<void> run_rounds(std::size_t contender_count, const RoundLimits& limits,
                        std::mt19937_64& random, const Reporter& reporter,
                        const std::function<Result<void>(std::size_t, std::size_t)>& slice) {
    std::vector<std::size_t> order(contender_count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::uint64_t start_ns = now_ns();
    for (std::size_t round = 0; round < limits.most_count; ++round) {
        const bool is_late = now_ns() - start_ns >= limits.time_limit_ns;
        if (reporter.is_interrupted() || (is_late && round >= limits.least_count)) {
            break;
        }
        std::ranges::shuffle(order, random);
        for (const std::size_t contender : order) {
            BERTH_TRY(slice(contender, round));
        }
    }
    return {};
}

}  // namespace berth::bench
