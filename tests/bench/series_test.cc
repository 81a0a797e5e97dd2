// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/series.h"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

Batch succeeding(std::vector<std::uint64_t> ns) { return {std::move(ns), {}, {}}; }

TEST(Series, RatioIsTheMedianOfRoundsNotTheRatioOfMedians) {
    Series slow;
    Series fast;
    // The second round was disturbed for both alike.
    for (const auto& [a, b] : {std::pair{200U, 100U}, {2000U, 1000U}, {300U, 100U}}) {
        slow.add(succeeding({a}));
        fast.add(succeeding({b}));
    }
    EXPECT_EQ(std::get<double>(slow.ratio_to(fast)), 2.0);
    EXPECT_EQ(slow.p50_ns(), 300);
}

TEST(Series, RatioToNothingIsNotMeasured) {
    Series series;
    series.add(succeeding({1}));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(series.ratio_to(Series{})));
}

TEST(Series, WhereEveryCallFailsTheFailingCallIsMeasured) {
    Series series;
    series.add({{}, {30, 10, 20}, "no port"});
    EXPECT_EQ(series.p50_ns(), 20);
    EXPECT_EQ(series.succeeded_count(), 0);
    EXPECT_EQ(series.failed_count(), 3);
    EXPECT_EQ(series.first_failure(), "no port");
}

TEST(Series, AFailureAmongSuccessesCountsButDoesNotBlurTheFigure) {
    Series series;
    series.add({{10, 10, 10}, {9'999}, "busy"});
    EXPECT_EQ(series.p50_ns(), 10);
    EXPECT_EQ(series.failed_count(), 1);
}

TEST(Series, AnEmptyBatchIsNoRound) {
    Series series;
    series.add({});
    EXPECT_TRUE(series.is_empty());
}

TEST(BatchLimits, TheLeastCountIsMeasuredHoweverLongItTakes) {
    const BatchLimits limits{.least_count = 5, .most_count = 200, .time_limit_ns = 1'000};
    EXPECT_FALSE(limits.is_over(4, 1'000'000));
    EXPECT_TRUE(limits.is_over(5, 1'000'000));
    EXPECT_FALSE(limits.is_over(199, 999));
    EXPECT_TRUE(limits.is_over(200, 0));
}

}  // namespace
}  // namespace berth::bench
