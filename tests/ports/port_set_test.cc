// SPDX-License-Identifier: Apache-2.0
#include "src/ports/port_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace berth::internal {
namespace {

TEST(PortSet, StartsEmpty) {
    const auto set = std::make_unique<PortSet>();
    EXPECT_EQ(set->free_count(), 0U);
    EXPECT_EQ(set->free_count_hint(), 0U);
    EXPECT_FALSE(set->draw(thread_random()));
    EXPECT_FALSE(set->is_free(0));
    EXPECT_FALSE(set->is_free(65535));
}

TEST(PortSet, ClaimSucceedsOnceForEachRelease) {
    const auto set = std::make_unique<PortSet>();
    constexpr std::uint16_t kPorts[] = {0, 1, 63, 64, 1023, 1024, 32768, 65535};
    for (const std::uint16_t port : kPorts) {
        EXPECT_FALSE(set->claim(port));
        set->release(port);
        set->release(port);
        EXPECT_TRUE(set->is_free(port));
        EXPECT_EQ(set->free_count(), 1U);
        EXPECT_EQ(set->free_count_hint(), 1U);
        EXPECT_TRUE(set->claim(port));
        EXPECT_FALSE(set->claim(port));
        EXPECT_EQ(set->free_count_hint(), 0U);
    }
}

TEST(PortSet, WholeWordsCountOnlyWhatChanges) {
    const auto set = std::make_unique<PortSet>();
    set->release(640);
    EXPECT_EQ(set->release_word(10, 0xff), 7U);
    EXPECT_EQ(set->free_count_hint(), 8U);
    set->claim_word(10, 0xf0f);
    EXPECT_EQ(set->word(10), 0xf0U);
    EXPECT_EQ(set->free_count_hint(), 4U);
}

TEST(PortSet, HoldsAllPorts) {
    const auto set = std::make_unique<PortSet>();
    for (unsigned i = 0; i < kWordCount; ++i) set->release_word(i, ~std::uint64_t{0});
    ASSERT_TRUE(set->claim(0));  // 0 is no port
    EXPECT_EQ(set->free_count(), 65'535U);
    EXPECT_EQ(set->free_count_hint(), 65'535U);
    EXPECT_TRUE(set->draw(thread_random()));
}

TEST(PortSet, DrawFindsTheOnlyFreePortAnywhere) {
    const auto set = std::make_unique<PortSet>();
    for (unsigned port = 0; port < kPortCount; port += 61) {
        const auto number = static_cast<std::uint16_t>(port);
        set->release(number);
        const MaybePort drawn = set->draw(thread_random());
        ASSERT_TRUE(drawn) << port;
        ASSERT_EQ(*drawn, number);
        set->claim(number);
    }
}

// 64 free ports in a row and 64 alone: a search from a random start prefers those alone.
TEST(PortSet, DrawIsUniformOverClusteredPorts) {
    const auto set = std::make_unique<PortSet>();
    std::vector<std::uint16_t> free;
    for (unsigned i = 0; i < 64; ++i) {
        free.push_back(static_cast<std::uint16_t>(33000 + i));
        free.push_back(static_cast<std::uint16_t>(36000 + 300 * i));
    }
    for (const std::uint16_t port : free) set->release(port);
    constexpr unsigned kDraws = 128'000;
    std::map<std::uint16_t, unsigned> hits;
    for (unsigned i = 0; i < kDraws; ++i) {
        const MaybePort port = set->draw(thread_random());
        ASSERT_TRUE(port);
        ++hits[*port];
    }
    ASSERT_EQ(hits.size(), free.size());
    const double expected = double{kDraws} / static_cast<double>(free.size());
    double chi_square = 0;
    for (const auto& [port, count] : hits) chi_square += std::pow(count - expected, 2) / expected;
    // 127 degrees of freedom: outside of 60 .. 230 once in 10^8 runs.
    EXPECT_GT(chi_square, 60);
    EXPECT_LT(chi_square, 230);
}

void spoil_counters(PortSet& set, int byte) {
    std::memset(reinterpret_cast<std::byte*>(&set) + sizeof(PortBits), byte,
                sizeof(PortSet) - sizeof(PortBits));
}

TEST(PortSet, WrongCountersMisleadDrawButNeverToATakenPort) {
    const auto set = std::make_unique<PortSet>();
    set->release(40000);
    for (const int byte : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        spoil_counters(*set, byte);
        for (unsigned i = 0; i < 1'000; ++i) {
            const MaybePort port = set->draw(thread_random());
            EXPECT_TRUE(!port || *port == 40000);
        }
        EXPECT_EQ(set->free_count(), 1U);
        set->recount();
        EXPECT_EQ(set->free_count_hint(), 1U);
    }
}

TEST(SelectBit, FindsTheNthSetBit) {
    const std::uint64_t words[] = {0x8000'0000'0000'0001, 0, 0xf0};
    const unsigned expected[] = {0, 63, 132, 133, 134, 135};
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
        EXPECT_EQ(select_bit(words, 3, rank), expected[rank]);
    }
    EXPECT_EQ(select_bit(words, 3, 6), std::nullopt);
    EXPECT_EQ(select_bit(words, 2, 2), std::nullopt);
    EXPECT_EQ(count_bits(words, 3), 6U);
    EXPECT_EQ(count_bits(words, 0), 0U);
}

}  // namespace
}  // namespace berth::internal
