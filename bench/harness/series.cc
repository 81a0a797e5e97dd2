// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/series.h"

#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>

namespace berth::bench {

void Series::add(Batch batch) {
    std::vector<std::uint64_t>& calls =
        batch.succeeded_ns.empty() ? batch.failed_ns : batch.succeeded_ns;
    if (calls.empty()) {
        return;
    }
    p50_ns_.push_back(quantile(calls, 0.5));
    p99_ns_.push_back(quantile(calls, 0.99));
    max_ns_ = std::max(max_ns_, *std::max_element(calls.begin(), calls.end()));
    succeeded_count_ += static_cast<std::int64_t>(batch.succeeded_ns.size());
    failed_count_ += static_cast<std::int64_t>(batch.failed_ns.size());
    if (first_failure_.empty()) {
        first_failure_ = std::move(batch.first_failure);
    }
}

double Series::p50_ns() const { return median(p50_ns_); }

Value Series::ratio_to(const Series& other) const {
    const std::size_t rounds = std::min(p50_ns_.size(), other.p50_ns_.size());
    std::vector<double> ratios;
    for (std::size_t round = 0; round < rounds; ++round) {
        if (other.p50_ns_[round] > 0.0) {
            ratios.push_back(p50_ns_[round] / other.p50_ns_[round]);
        }
    }
    return ratios.empty() ? Value{} : Value{median(std::move(ratios))};
}

void Series::add_figures(Row& row) const {
    row.figure("p50_ns", std::round(p50_ns()))
        .figure("p99_ns", std::round(median(p99_ns_)))
        .figure("max_ns", static_cast<std::int64_t>(max_ns_))
        .figure("succeeded", succeeded_count_)
        .figure("failed", failed_count_)
        .figure("rounds", static_cast<std::int64_t>(p50_ns_.size()))
        .figure("spread_percent", spread_percent(p50_ns_));
}

}  // namespace berth::bench
