// SPDX-License-Identifier: Apache-2.0
#include "src/ports/choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace berth::internal {
namespace {

constexpr PortRange kRange = {32768, 60999};

bool accept_any(std::uint16_t /*port*/) { return true; }

class ChoiceTest : public testing::Test {
protected:
    void free(PortSet& set, std::initializer_list<std::uint16_t> ports) {
        for (const std::uint16_t port : ports) set.release(port);
    }
    void free(PortSet& set, PortRange range) {
        for (unsigned port = range.first; port <= range.last; ++port) {
            set.release(static_cast<std::uint16_t>(port));
        }
    }
    Candidates both(PortRange range = kRange) {
        Candidates candidates;
        candidates.add(*first_);
        candidates.add(*second_);
        candidates.range = range;
        candidates.is_whole_range = range == kRange;
        return candidates;
    }

    std::unique_ptr<PortSet> first_ = std::make_unique<PortSet>();
    std::unique_ptr<PortSet> second_ = std::make_unique<PortSet>();
    RandomStream& random_ = thread_random();
};

TEST_F(ChoiceTest, NothingFreeIsNone) {
    EXPECT_FALSE(choose(OneSet{*first_, kRange}, random_,
                        [this](std::uint16_t port) { return first_->is_free(port); }));
    EXPECT_FALSE(choose(both(), random_, accept_any));
    EXPECT_FALSE(draw_exactly(both(), random_));
    free(*first_, {33000, 33002});
    free(*second_, {33001, 33003});
    EXPECT_FALSE(choose(both(), random_, accept_any)) << "free in one of two";
}

TEST_F(ChoiceTest, TheOnlyCommonPortIsFound) {
    free(*first_, kRange);
    for (const std::uint16_t port : {kRange.first, std::uint16_t{47'111}, kRange.last}) {
        second_->release(port);
        for (unsigned i = 0; i < 20; ++i) {
            const MaybePort chosen = choose(both(), random_, accept_any);
            ASSERT_TRUE(chosen);
            EXPECT_EQ(*chosen, port);
        }
        second_->claim(port);
    }
}

TEST_F(ChoiceTest, RangeAndExcludedPortAreRespected) {
    free(*first_, kRange);
    free(*second_, kRange);
    for (const PortRange range :
         {PortRange{40000, 40000}, {40063, 40064}, {40000, 40003}, {40001, 40130}}) {
        Candidates candidates = both(range);
        candidates.excluded = range.last;
        for (unsigned i = 0; i < 200; ++i) {
            const MaybePort chosen = choose(candidates, random_, accept_any);
            ASSERT_EQ(static_cast<bool>(chosen), range.size() > 1);
            if (chosen) {
                EXPECT_TRUE(range.contains(*chosen) && *chosen != range.last) << *chosen;
            }
        }
    }
}

TEST_F(ChoiceTest, RefusedClaimsAreFollowedByOtherPorts) {
    free(*first_, {33000, 33001, 33002, 33003});
    std::set<std::uint16_t> offered;
    const auto refuse = [&](std::uint16_t port) {
        offered.insert(port);
        return offered.size() == 4;
    };
    const OneSet one{*first_, kRange};
    const auto claim = [&](std::uint16_t port) { return first_->is_free(port) && refuse(port); };
    EXPECT_TRUE(choose(one, random_, claim));
    EXPECT_EQ(offered.size(), 4U);
}

TEST_F(ChoiceTest, EndlessRefusalsEnd) {
    free(*first_, kRange);
    unsigned offers = 0;
    EXPECT_FALSE(choose(OneSet{*first_, kRange}, random_, [&](std::uint16_t) {
        ++offers;
        return false;
    }));
    EXPECT_LT(offers, 10'000U);
}

// Of 128 free ports half are in a row and half alone, and nearly all others are taken.
TEST_F(ChoiceTest, IsUniformOverClusteredPorts) {
    std::vector<std::uint16_t> ports;
    for (unsigned i = 0; i < 64; ++i) {
        ports.push_back(static_cast<std::uint16_t>(33000 + i));
        ports.push_back(static_cast<std::uint16_t>(36000 + 300 * i));
    }
    for (const std::uint16_t port : ports) {
        first_->release(port);
        second_->release(port);
    }
    constexpr unsigned kDraws = 64'000;
    const double expected = double{kDraws} / static_cast<double>(ports.size());
    for (const bool is_one : {true, false}) {
        const auto claim = [&](std::uint16_t port) { return first_->is_free(port); };
        std::map<std::uint16_t, unsigned> hits;
        for (unsigned i = 0; i < kDraws; ++i) {
            const MaybePort port = is_one ? choose(OneSet{*first_, kRange}, random_, claim)
                                          : choose(both(), random_, claim);
            ASSERT_TRUE(port);
            ++hits[*port];
        }
        ASSERT_EQ(hits.size(), ports.size());
        double chi_square = 0;
        for (const auto& [port, count] : hits) {
            chi_square += std::pow(count - expected, 2) / expected;
        }
        // 127 degrees of freedom: outside of 60 .. 230 once in 10^8 runs.
        EXPECT_GT(chi_square, 60);
        EXPECT_LT(chi_square, 230);
    }
}

TEST_F(ChoiceTest, RunsFitOverTheSeamsOfWords) {
    free(*first_, {40000, 40200});
    free(*first_, PortRange{40050, 40150});
    free(*second_, kRange);
    for (const unsigned length : {2U, 3U, 33U, 63U, 64U}) {
        std::set<std::uint16_t> starts;
        for (unsigned i = 0; i < 2'000; ++i) {
            const MaybePort first = draw_run_exactly(both(), length, 1, random_);
            ASSERT_TRUE(first);
            starts.insert(*first);
        }
        EXPECT_EQ(*starts.begin(), 40050) << length;
        EXPECT_EQ(*starts.rbegin(), 40151 - length) << length;
        EXPECT_EQ(starts.size(), 102 - length) << length;
    }
}

TEST_F(ChoiceTest, RunsEndWithTheRange) {
    free(*first_, PortRange{40000, 40100});
    free(*second_, PortRange{40000, 40100});
    EXPECT_FALSE(draw_run_exactly(both({40000, 40030}), 32, 1, random_));
    const MaybePort first = draw_run_exactly(both({40000, 40030}), 31, 1, random_);
    ASSERT_TRUE(first);
    EXPECT_EQ(*first, 40000);
    EXPECT_FALSE(draw_run_exactly(both({40001, 40031}), 31, 2, random_));
}

TEST_F(ChoiceTest, RunsReachTheLastPortThereIs) {
    free(*first_, PortRange{65534, 65535});
    free(*second_, PortRange{65534, 65535});
    const MaybePort first = draw_run_exactly(both({60000, 65535}), 2, 2, random_);
    ASSERT_TRUE(first);
    EXPECT_EQ(*first, 65534);
}

}  // namespace
}  // namespace berth::internal
