// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/held.h"

#include <gtest/gtest.h>

#include <memory>

namespace berth::bench {
namespace {

TEST(Held, FindsByPortAlsoAtTheEndsOfTheRange) {
    Held<int> held({1, 65'535});
    held.add(1, 10);
    held.add(65'535, 20);
    EXPECT_TRUE(held.has(1));
    EXPECT_FALSE(held.has(2));
    EXPECT_FALSE(held.remove(0));
    EXPECT_EQ(held.remove(65'535), 20);
    EXPECT_FALSE(held.remove(65'535));
    EXPECT_EQ(held.size(), 1U);
}

TEST(Held, PortsOutsideTheRangeAreNotHeld) {
    Held<int> held({40'000, 40'009});
    EXPECT_FALSE(held.has(39'999));
    EXPECT_FALSE(held.has(40'010));
    EXPECT_FALSE(held.remove(40'010));
}

TEST(Held, TheLastTakesThePlaceOfTheRemoved) {
    Held<std::unique_ptr<int>> held({40'000, 40'009});
    for (std::uint16_t port = 40'000; port < 40'004; ++port) {
        held.add(port, std::make_unique<int>(port));
    }
    EXPECT_EQ(*held.remove_at(1), 40'001);
    EXPECT_EQ(*held.remove(40'003).value(), 40'003);
    EXPECT_EQ(*held.remove_at(1), 40'002);
    EXPECT_EQ(*held.remove_at(0), 40'000);
    EXPECT_EQ(held.size(), 0U);
}

TEST(Held, OfTwoTheOldestIsFirst) {
    Held<int> held({40'000, 40'009});
    held.add(40'000, 0);
    for (std::uint16_t turn = 1; turn < 9; ++turn) {
        held.add(static_cast<std::uint16_t>(40'000 + turn), turn);
        EXPECT_EQ(held.remove_at(0), turn - 1);
    }
}

}  // namespace
}  // namespace berth::bench
