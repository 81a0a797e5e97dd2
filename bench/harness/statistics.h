// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace berth::bench {

/// CLOCK_MONOTONIC in nanoseconds.
std::uint64_t now_ns() noexcept;
/// CPU time of the calling thread in nanoseconds.
std::uint64_t thread_cpu_ns() noexcept;

/// The q-quantile (0..1) by nearest rank; 0 for no samples. Reorders `samples`.
double quantile(std::span<std::uint64_t> samples, double q);
double median(std::vector<double> values);
/// (third − first quartile) / median × 100 of the rounds' medians; 0 for fewer than two.
double spread_percent(std::vector<double> values);

/// Upper tail of the chi-square distribution: P(X >= statistic) with `degrees` degrees of freedom.
double chi_square_p(double statistic, unsigned degrees);

}  // namespace berth::bench
