// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/held_descriptors.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <thread>
#include <vector>

namespace berth::internal {
namespace {

Held bound(std::uint16_t port) {
    Held held;
    held.kind = HeldKind::bound;
    held.protocol = Protocol::tcp;
    held.port = port;
    held.space = 1;
    held.other_space = 0;
    held.tag = 0x7ff;
    return held;
}

Held connection(std::uint16_t port) {
    Held held;
    held.kind = HeldKind::connection;
    held.protocol = Protocol::tcp;
    held.family = Family::ipv6;
    held.port = port;
    held.slot = 127;
    held.generation = 0xffff;
    return held;
}

TEST(HeldWord, FitsIntoAWordAndBack) {
    for (const std::uint16_t port : std::initializer_list<std::uint16_t>{1, 0x8000, 0xffff}) {
        EXPECT_EQ(Held::unpack(bound(port).packed()), bound(port));
        EXPECT_EQ(Held::unpack(connection(port).packed()), connection(port));
    }
    Held seen;
    seen.kind = HeldKind::seen;
    EXPECT_EQ(Held::unpack(seen.packed()), seen);
    EXPECT_NE(seen.packed(), 0U);
    Held fresh;
    fresh.kind = HeldKind::fresh;
    fresh.family = Family::ipv6;
    fresh.flags = kMayHaveAnything;
    EXPECT_EQ(Held::unpack(fresh.packed()), fresh);
    EXPECT_EQ(Held{}.packed(), 0U);
}

class HeldDescriptorsTest : public testing::Test {
protected:
    std::vector<std::atomic<std::uint64_t>> words_ = std::vector<std::atomic<std::uint64_t>>(64);
    HeldDescriptors held_{words_.data(), 64};
};

TEST_F(HeldDescriptorsTest, WhatWasPutIsTakenOnce) {
    EXPECT_TRUE(held_.is_empty(5));
    EXPECT_EQ(held_.put(5, bound(40000)), Held{});
    EXPECT_EQ(held_.put(5, bound(40001)), bound(40000));
    EXPECT_EQ(held_.get(5), bound(40001));
    EXPECT_EQ(held_.take(5), bound(40001));
    EXPECT_EQ(held_.take(5), Held{});
    EXPECT_EQ(held_.end(), 6U);
}

TEST_F(HeldDescriptorsTest, DescriptorsOutsideAreNotCovered) {
    for (const int fd : {-1, 64, 1 << 30}) {
        EXPECT_FALSE(held_.covers(fd));
        EXPECT_TRUE(held_.is_empty(fd));
        EXPECT_EQ(held_.put(fd, bound(1)), Held{});
        EXPECT_EQ(held_.take(fd), Held{});
    }
    EXPECT_FALSE(HeldDescriptors().covers(0));
}

TEST_F(HeldDescriptorsTest, ReplaceNeedsWhatIsExpected) {
    held_.put(3, bound(40000));
    EXPECT_FALSE(held_.replace(3, bound(40001), connection(1)));
    EXPECT_TRUE(held_.replace(3, bound(40000), connection(1)));
    EXPECT_EQ(held_.get(3), connection(1));
}

TEST_F(HeldDescriptorsTest, OnlyAFreshSocketHasFlags) {
    Held fresh;
    fresh.kind = HeldKind::fresh;
    held_.put(3, fresh);
    held_.add_flags(3, kMayReuse);
    held_.add_flags(3, kMayHaveRange);
    EXPECT_EQ(held_.get(3).flags, kMayReuse | kMayHaveRange);
    held_.put(4, bound(40000));
    for (const int fd : {4, 5, -1, 64}) held_.add_flags(fd, kMayReuse);
    EXPECT_EQ(held_.get(4), bound(40000));
    EXPECT_TRUE(held_.is_empty(5));
}

TEST_F(HeldDescriptorsTest, OneOfManyThreadsTakes) {
    for (int round = 0; round < 500; ++round) {
        held_.put(7, bound(40000));
        std::atomic<int> taken{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] { taken += held_.take(7).has_port_of_ours() ? 1 : 0; });
        }
        for (std::thread& thread : threads) thread.join();
        ASSERT_EQ(taken, 1);
    }
}

}  // namespace
}  // namespace berth::internal
