// SPDX-License-Identifier: Apache-2.0
#include "src/ports/resting_ports.h"

#include "src/ports/port_space.h"

#include <gtest/gtest.h>

#include <memory>

namespace berth::internal {
namespace {

constexpr std::uint64_t kEpoch = 1'000;

class RestingPortsTest : public testing::Test {
protected:
    RestingPortsTest() {
        for (auto& word : allowed_bits_) word = ~std::uint64_t{0};
        EXPECT_EQ(advance(kEpoch), 0U);
    }

    unsigned advance(std::uint64_t epoch) { return resting_.advance(epoch, free_, allowed_); }
    unsigned free_oldest() { return resting_.free_oldest(free_, allowed_); }

    std::unique_ptr<PortBits> allowed_memory_ = std::make_unique<PortBits>();
    std::unique_ptr<PortSpace> space_ = std::make_unique<PortSpace>();
    PortBits& allowed_bits_ = *allowed_memory_;
    AllowedPorts allowed_{allowed_bits_, 0, kWordCount - 1};
    PortSet& free_ = space_->free;
    RestingPorts& resting_ = space_->resting;
};

TEST_F(RestingPortsTest, PortRestsForSixWholeEpochsAndNoMoreThanSeven) {
    resting_.add(40000, kEpoch);
    for (std::uint64_t epoch = kEpoch; epoch <= kEpoch + RestingPorts::kEpochsOfRest; ++epoch) {
        advance(epoch);
        EXPECT_TRUE(resting_.is_resting(40000)) << epoch - kEpoch;
        EXPECT_FALSE(free_.is_free(40000));
    }
    EXPECT_EQ(advance(kEpoch + RestingPorts::kEpochsOfRest + 1), 1U);
    EXPECT_FALSE(resting_.is_resting(40000));
    EXPECT_TRUE(free_.is_free(40000));
}

TEST_F(RestingPortsTest, LongSilenceEndsAllRestsButPerhapsTheLast) {
    for (std::uint16_t i = 0; i < RestingPorts::kMapCount; ++i) {
        advance(kEpoch + i);
        resting_.add(static_cast<std::uint16_t>(40000 + i), kEpoch + i);
    }
    const std::uint32_t before = resting_.count() + free_.free_count();
    advance(kEpoch + 1'000'003);
    EXPECT_LE(resting_.count(), 1U);
    advance(kEpoch + 1'000'003 + RestingPorts::kMapCount - 1);
    EXPECT_EQ(resting_.count(), 0U);
    EXPECT_EQ(free_.free_count(), before);
}

TEST_F(RestingPortsTest, ClockThatGoesBackEndsNothing) {
    resting_.add(40000, kEpoch);
    EXPECT_EQ(advance(kEpoch - 100), 0U);
    EXPECT_TRUE(resting_.is_resting(40000));
}

TEST_F(RestingPortsTest, OldestRestsEndFirst) {
    for (std::uint16_t i = 0; i < 5; ++i) {
        advance(kEpoch + i);
        resting_.add(static_cast<std::uint16_t>(40000 + i), kEpoch + i);
    }
    for (std::uint16_t i = 0; i < 5; ++i) {
        EXPECT_EQ(free_oldest(), 1U);
        EXPECT_TRUE(free_.is_free(static_cast<std::uint16_t>(40000 + i)));
    }
    EXPECT_EQ(free_oldest(), 0U);
}

TEST_F(RestingPortsTest, PortsThatAreNoLongerAllowedAreNotFreed) {
    resting_.add(40000, kEpoch);
    resting_.add(40001, kEpoch);
    allowed_bits_[40000 / 64] &= ~bit_of(40000);
    EXPECT_EQ(free_oldest(), 1U);
    EXPECT_FALSE(free_.is_free(40000));
    EXPECT_TRUE(free_.is_free(40001));
    EXPECT_EQ(resting_.count(), 0U);
}

TEST_F(RestingPortsTest, RemovedPortDoesNotComeBack) {
    resting_.add(40000, kEpoch);
    EXPECT_TRUE(resting_.remove(40000));
    EXPECT_FALSE(resting_.remove(40000));
    EXPECT_EQ(free_oldest(), 0U);
    EXPECT_EQ(resting_.count(), 0U);
}

TEST_F(RestingPortsTest, WordShowsTheRestingPortsOfAllEpochs) {
    resting_.add(6400, kEpoch);
    advance(kEpoch + 1);
    resting_.add(6403, kEpoch + 1);
    EXPECT_EQ(resting_.word(100), 0b1001U);
    EXPECT_EQ(resting_.count(), 2U);
}

TEST_F(RestingPortsTest, EveryPourIsCounted) {
    const std::uint32_t before = resting_.pour_count();
    resting_.add(40000, kEpoch);
    free_oldest();
    EXPECT_NE(resting_.pour_count(), before);
}

}  // namespace
}  // namespace berth::internal
