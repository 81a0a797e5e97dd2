// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace berth::bench {
namespace {

TEST(Statistics, ChiSquareHasItsFivePercentPointsWhereTablesPutThem) {
    EXPECT_NEAR(chi_square_p(3.841458820694124, 1), 0.05, 1e-12);
    EXPECT_NEAR(chi_square_p(5.991464547107979, 2), 0.05, 1e-12);
    EXPECT_NEAR(chi_square_p(18.307038053275146, 10), 0.05, 1e-12);
    EXPECT_NEAR(chi_square_p(124.34211340400407, 100), 0.05, 1e-12);
}

TEST(Statistics, ChiSquareAgreesWithItsClosedFormForFourDegrees) {
    for (const double x : {0.001, 0.5, 3.0, 6.0, 20.0, 100.0}) {
        EXPECT_NEAR(chi_square_p(x, 4), std::exp(-x / 2) * (1 + x / 2), 1e-13) << x;
    }
}

TEST(Statistics, ChiSquareFallsFromOneToZero) {
    EXPECT_EQ(chi_square_p(0, 127), 1.0);
    EXPECT_NEAR(chi_square_p(126.335, 127), 0.5, 1e-3);
    EXPECT_LT(chi_square_p(1e6, 127), 1e-300);
    EXPECT_NEAR(chi_square_p(28'231, 28'231), 0.5, 0.01);
}

TEST(Statistics, QuantileIsTheNearestRank) {
    std::vector<std::uint64_t> samples = {50, 10, 40, 20, 30};
    EXPECT_EQ(quantile(samples, 0.5), 30);
    EXPECT_EQ(quantile(samples, 0.99), 50);
    EXPECT_EQ(quantile(samples, 0.0), 10);
    EXPECT_EQ(quantile(samples, 0.2), 10);
    EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Statistics, MedianOfAnEvenCountLiesBetweenTheMiddleTwo) {
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_EQ(median({7}), 7);
    EXPECT_EQ(median({}), 0);
}

TEST(Statistics, SpreadIsTheQuartileWidthInPercentOfTheMedian) {
    EXPECT_DOUBLE_EQ(spread_percent({100, 90, 110, 80, 120}), 20);
    EXPECT_EQ(spread_percent({5}), 0);
    EXPECT_EQ(spread_percent({0, 0, 0}), 0);
}

}  // namespace
}  // namespace berth::bench
