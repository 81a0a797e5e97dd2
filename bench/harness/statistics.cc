// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

namespace berth::bench {
namespace {

constexpr int kMaxIterations = 10'000;
constexpr double kPrecision = 1e-14;

std::uint64_t read_clock(clockid_t clock) noexcept {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

/// x^a e^−x / Γ(a), the factor that both expansions share.
double gamma_factor(double a, double x) { return std::exp(a * std::log(x) - x - std::lgamma(a)); }

/// Regularised lower incomplete gamma function by its series; converges fast for x < a + 1.
double gamma_lower_series(double a, double x) {
    double term = 1.0 / a;
    double sum = term;
    for (int i = 1; i < kMaxIterations && term > sum * kPrecision; ++i) {
        term *= x / (a + i);
        sum += term;
    }
    return sum * gamma_factor(a, x);
}

/// Regularised upper incomplete gamma function by its continued fraction (Lentz's method);
/// converges fast for x >= a + 1.
double gamma_upper_fraction(double a, double x) {
    constexpr double kTiny = std::numeric_limits<double>::min() / kPrecision;
    double b = x + 1.0 - a;
    double c = 1.0 / kTiny;
    double d = 1.0 / b;
    double fraction = d;
    for (int i = 1; i < kMaxIterations; ++i) {
        const double an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        d = 1.0 / (std::abs(d) < kTiny ? kTiny : d);
        c = b + an / c;
        c = std::abs(c) < kTiny ? kTiny : c;
        const double step = d * c;
        fraction *= step;
        if (std::abs(step - 1.0) < kPrecision) {
            break;
        }
    }
    return fraction * gamma_factor(a, x);
}

double quantile_of_sorted(const std::vector<double>& sorted, double q) {
    const double position = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    const double weight = position - static_cast<double>(below);
    return sorted[below] * (1.0 - weight) + sorted[above] * weight;
}

}  // namespace

std::uint64_t now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

std::uint64_t thread_cpu_ns() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

double quantile(std::span<std::uint64_t> samples, double q) {
    if (samples.empty()) {
        return 0.0;
    }
    const double rank = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(samples.size()));
    const std::size_t index = rank < 1.0 ? 0 : static_cast<std::size_t>(rank) - 1;
    const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(index);
    std::nth_element(samples.begin(), nth, samples.end());
    return static_cast<double>(*nth);
}

double median(std::vector<double> values) {
    if (values.empty()) {
        return 0.0;
    }
    std::sort(values.begin(), values.end());
    return quantile_of_sorted(values, 0.5);
}

double spread_percent(std::vector<double> values) {
    if (values.size() < 2) {
        return 0.0;
    }
    std::sort(values.begin(), values.end());
    const double middle = quantile_of_sorted(values, 0.5);
    if (middle == 0.0) {
        return 0.0;
    }
    const double width = quantile_of_sorted(values, 0.75) - quantile_of_sorted(values, 0.25);
    return width / middle * 100.0;
}

double chi_square_p(double statistic, unsigned degrees) {
    if (degrees == 0 || !(statistic > 0.0)) {
        return 1.0;
    }
    const double a = static_cast<double>(degrees) / 2.0;
    const double x = statistic / 2.0;
    return x < a + 1.0 ? 1.0 - gamma_lower_series(a, x) : gamma_upper_fraction(a, x);
}

}  // namespace berth::bench
