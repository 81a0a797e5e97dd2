// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/event_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace berth::internal {
namespace {

TEST(EventRing, EventsComeOutInOrder) {
    const auto ring = std::make_unique<EventRing>();
    EXPECT_FALSE(ring->next(true));
    for (std::uint32_t i = 0; i < 3; ++i) ring->add({.pid = i, .port = 40000, .call = Call::send});
    for (std::uint32_t i = 0; i < 3; ++i) {
        const auto event = ring->next(true);
        ASSERT_TRUE(event);
        EXPECT_EQ(event->pid, i);
        EXPECT_EQ(event->port, 40000);
        EXPECT_EQ(event->call, Call::send);
    }
    EXPECT_FALSE(ring->next(false));
    EXPECT_EQ(ring->lost_count(), 0U);
}

TEST(EventRing, WhatIsOverwrittenIsCounted) {
    const auto ring = std::make_unique<EventRing>();
    for (std::uint32_t i = 0; i < EventRing::kPlaceCount + 10; ++i) ring->add({.pid = i});
    EXPECT_EQ(ring->next(true)->pid, 10U);
    EXPECT_EQ(ring->lost_count(), 10U);
}

TEST(EventRing, NothingIsTornOrLostUncounted) {
    constexpr std::uint32_t kThreadCount = 3;
    constexpr std::uint32_t kEventCount = 30'000;
    const auto ring = std::make_unique<EventRing>();
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < kThreadCount; ++t) {
        threads.emplace_back([&ring, t] {
            for (std::uint32_t i = 0; i < kEventCount; ++i) {
                ring->add({.time_ns = i, .pid = t, .error = static_cast<int>(i), .cost_ns = i});
            }
        });
    }
    std::uint64_t read = 0;
    const auto drain = [&](bool is_patient) {
        while (const auto event = ring->next(is_patient)) {
            ++read;
            ASSERT_LT(event->pid, kThreadCount);
            ASSERT_EQ(event->time_ns, event->cost_ns);
        }
    };
    for (int i = 0; i < 100; ++i) drain(true);
    for (std::thread& thread : threads) thread.join();
    drain(false);
    EXPECT_EQ(read + ring->lost_count(), kThreadCount * kEventCount);
}

TEST(CostHistogram, MedianAndWorst) {
    const auto histogram = std::make_unique<CostHistogram>();
    EXPECT_EQ(histogram->median_ns(), 0U);
    for (const std::uint64_t cost : {3U, 1'000U, 1'001U, 1'002U, 5'000'000U}) histogram->add(cost);
    EXPECT_EQ(histogram->count(), 5U);
    EXPECT_EQ(histogram->worst_ns(), 5'000'000U);
    EXPECT_LE(histogram->median_ns(), 1'000U);
    EXPECT_GE(histogram->median_ns(), 940U);
    histogram->add(~std::uint64_t{0});
    EXPECT_EQ(histogram->worst_ns(), ~std::uint64_t{0});
}

}  // namespace
}  // namespace berth::internal
