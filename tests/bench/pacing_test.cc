// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/pacing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace berth::bench {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(Pacing, AllWorkersTogetherMakeTheRateEvenlySpread) {
    constexpr unsigned kWorkers = 64;
    constexpr double kRate = 5'000;
    std::vector<std::uint64_t> due;
    for (unsigned index = 0; index < kWorkers; ++index) {
        Pacing pacing(kSecond, kRate, index, kWorkers);
        while (pacing.due_ns() < 3 * kSecond) {
            due.push_back(pacing.due_ns());
            pacing.advance(pacing.due_ns());
        }
    }
    std::ranges::sort(due);
    EXPECT_NEAR(static_cast<double>(due.size()), 2 * kRate, 1);
    for (std::size_t place = 1; place < due.size(); ++place) {
        EXPECT_NEAR(static_cast<double>(due[place] - due[place - 1]), 1e9 / kRate, 2);
    }
}

TEST(Pacing, ALateWorkerCatchesUp) {
    Pacing pacing(0, 10, 0, 1);
    pacing.advance(kSecond / 2);  // five turns are due by now
    for (unsigned turn = 1; turn <= 5; ++turn) {
        EXPECT_EQ(pacing.due_ns(), turn * kSecond / 10);
        pacing.advance(kSecond / 2);
    }
    EXPECT_GT(pacing.due_ns(), kSecond / 2);
}

TEST(Pacing, WhatWasMissedLongAgoIsDropped) {
    Pacing pacing(0, 10, 0, 1);
    pacing.advance(60 * kSecond);
    EXPECT_EQ(pacing.due_ns(), 60 * kSecond);
    pacing.advance(60 * kSecond);
    EXPECT_EQ(pacing.due_ns(), 60 * kSecond + kSecond / 10);
}

TEST(Pacing, DoesNotDriftWithARateThatDoesNotDivideASecond) {
    Pacing pacing(0, 3, 0, 1);
    for (unsigned turn = 0; turn < 3'000; ++turn) {
        pacing.advance(pacing.due_ns());
    }
    EXPECT_NEAR(static_cast<double>(pacing.due_ns()), 1e12, 10);
}

}  // namespace
}  // namespace berth::bench
