// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace berth::bench {
namespace {

constexpr double kErrorBound = 0.03;

TEST(LatencyHistogram, EveryBucketIsWithinTheErrorBound) {
    for (std::uint64_t value = 0; value < std::uint64_t{1} << 40; value += 1 + value / 97) {
        const double middle = LatencyHistogram::middle_of(LatencyHistogram::bucket_of(value));
        const auto exact = static_cast<double>(value);
        ASSERT_LE(std::abs(middle - exact), kErrorBound * exact) << value;
    }
}

TEST(LatencyHistogram, BucketsAscendWithoutGaps) {
    unsigned bucket = 0;
    for (std::uint64_t value = 0; value < 1 << 20; ++value) {
        const unsigned next = LatencyHistogram::bucket_of(value);
        ASSERT_TRUE(next == bucket || next == bucket + 1) << value;
        bucket = next;
    }
}

TEST(LatencyHistogram, QuantilesAreWithinTheErrorBound) {
    const auto histogram = std::make_unique<LatencyHistogram>();
    std::mt19937_64 random(7);
    std::lognormal_distribution<double> durations(8, 2);
    std::vector<std::uint64_t> exact;
    for (unsigned count = 0; count < 10'000; ++count) {
        exact.push_back(static_cast<std::uint64_t>(durations(random)));
        histogram->add(exact.back());
    }
    std::ranges::sort(exact);
    for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
        const auto rank = static_cast<std::size_t>(std::ceil(q * 10'000));
        const auto expected = static_cast<double>(exact[rank - 1]);
        EXPECT_NEAR(histogram->quantile_ns(q), expected, kErrorBound * expected + 1) << q;
    }
    EXPECT_EQ(histogram->max_ns(), exact.back());
    EXPECT_EQ(histogram->count(), 10'000U);
}

TEST(LatencyHistogram, MergesAndKeepsTheLongest) {
    const auto one = std::make_unique<LatencyHistogram>();
    const auto other = std::make_unique<LatencyHistogram>();
    one->add(10);
    other->add(1'000'000);
    other->add(20);
    one->merge(*other);
    EXPECT_EQ(one->count(), 3U);
    EXPECT_EQ(one->max_ns(), 1'000'000U);
    EXPECT_EQ(one->quantile_ns(0.5), 20);
}

TEST(LatencyHistogram, ValuesBeyondTheLastBucketAreCounted) {
    const auto histogram = std::make_unique<LatencyHistogram>();
    histogram->add(~std::uint64_t{0});
    EXPECT_EQ(histogram->count(), 1U);
    EXPECT_GT(histogram->quantile_ns(0.5), 1e12);
}

TEST(LatencyHistogram, IsZeroWhenEmpty) {
    const auto histogram = std::make_unique<LatencyHistogram>();
    EXPECT_EQ(histogram->quantile_ns(0.5), 0);
}

}  // namespace
}  // namespace berth::bench
