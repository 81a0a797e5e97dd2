// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/paired_slices.h"

#include "tests/bench/noting_reporter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace berth::bench {
namespace {

double number(const Value& value) {
    const auto* const found = std::get_if<double>(&value);
    return found != nullptr ? *found : -1;
}

SliceSeries series(std::initializer_list<double> values) {
    SliceSeries result;
    for (const double value : values) {
        result.set(result.count(), value);
    }
    return result;
}

TEST(SliceSeries, ARatioIsTheMedianOfTheRoundsRatios) {
    // The machine is three times slower in the second round: the medians would say 1.5.
    const SliceSeries base = series({100, 300, 100});
    const SliceSeries other = series({110, 330, 150});
    EXPECT_DOUBLE_EQ(number(other.ratio_to(base)), 1.1);
    EXPECT_DOUBLE_EQ(number(base.ratio_to(base)), 1.0);
    EXPECT_DOUBLE_EQ(number(other.excess_over(base)), 30);
}

TEST(SliceSeries, OnlyRoundsThatBothHaveAreCompared) {
    SliceSeries base;
    base.set(0, 100);
    base.set(2, 10);
    SliceSeries other;
    other.set(1, 1'000);
    other.set(2, 20);
    EXPECT_EQ(other.count(), 2U);
    EXPECT_DOUBLE_EQ(number(other.ratio_to(base)), 2.0);
}

TEST(SliceSeries, WhatWasNotMeasuredHasNoFigure) {
    const SliceSeries none;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(none.median()));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(none.spread_percent()));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(none.ratio_to(series({1}))));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(series({1}).ratio_to(none)));
}

TEST(SliceSeries, ARoundOfNothingIsNoReference) {
    EXPECT_TRUE(std::holds_alternative<std::monostate>(series({1}).ratio_to(series({0}))));
}

TEST(RunRounds, EveryContenderHasItsSliceInEachRound) {
    NotingReporter reporter;
    std::mt19937_64 random(1);
    std::multiset<std::pair<std::size_t, std::size_t>> slices;
    std::set<std::vector<std::size_t>> orders;
    std::vector<std::size_t> order;
    const RoundLimits limits = {.least_count = 50, .most_count = 50, .time_limit_ns = 0};
    ASSERT_TRUE(run_rounds(3, limits, random, reporter,
                           [&](std::size_t contender, std::size_t round) -> Result<void> {
                               slices.emplace(contender, round);
                               order.push_back(contender);
                               if (order.size() == 3) {
                                   orders.insert(std::exchange(order, {}));
                               }
                               return {};
                           }));
    EXPECT_EQ(slices.size(), 150U);
    for (std::size_t round = 0; round < 50; ++round) {
        for (std::size_t contender = 0; contender < 3; ++contender) {
            EXPECT_EQ(slices.count({contender, round}), 1U);
        }
    }
    EXPECT_EQ(orders.size(), 6U);  // all there are
}

TEST(RunRounds, EndsAtItsTimeButNotBeforeTheLeastCount) {
    NotingReporter reporter;
    std::mt19937_64 random(1);
    std::size_t last_round = 0;
    const RoundLimits limits = {.least_count = 4, .most_count = 90, .time_limit_ns = 0};
    ASSERT_TRUE(run_rounds(2, limits, random, reporter,
                           [&](std::size_t, std::size_t round) -> Result<void> {
                               last_round = round;
                               return {};
                           }));
    EXPECT_EQ(last_round, 3U);
}

TEST(RunRounds, AnErrorEndsThem) {
    NotingReporter reporter;
    std::mt19937_64 random(1);
    unsigned slices = 0;
    const auto done = run_rounds(2, RoundLimits{}, random, reporter, [&](std::size_t, std::size_t) {
        ++slices;
        return Result<void>(std::unexpected(Error(Errc::interrupted, "test")));
    });
    EXPECT_FALSE(done);
    EXPECT_EQ(slices, 1U);
}

TEST(RoundLimits, RepeatsFixTheCountAndSecondsTheTime) {
    Selection selection;
    EXPECT_EQ(RoundLimits::from(selection, 5).time_limit_ns, 5'000'000'000U);
    selection.repeats = 7;
    EXPECT_EQ(RoundLimits::from(selection, 5).least_count, 7U);
    EXPECT_EQ(RoundLimits::from(selection, 5).most_count, 7U);
    selection.seconds = 2;
    EXPECT_EQ(RoundLimits::from(selection, 5).time_limit_ns, 2'000'000'000U);
    EXPECT_EQ(RoundLimits::from(selection, 5).least_count, 1U);
}

}  // namespace
}  // namespace berth::bench
