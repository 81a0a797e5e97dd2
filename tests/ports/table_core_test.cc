// SPDX-License-Identifier: Apache-2.0
#include "src/ports/table_core.h"

#include "tests/support/core_table.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::address;
using test::CoreTable;

constexpr PortRange kSmall = {40000, 40015};
constexpr unsigned kV4 = static_cast<unsigned>(Family::ipv4);
constexpr unsigned kV6 = static_cast<unsigned>(Family::ipv6);

std::vector<std::uint16_t> take_all(TableCore& core, const Footprint& footprint,
                                    const Ask& ask = {}) {
    std::vector<std::uint16_t> ports;
    while (const MaybePort port = core.take(footprint, ask, own_word())) ports.push_back(*port);
    return ports;
}

std::set<std::uint16_t> as_set(const std::vector<std::uint16_t>& ports) {
    return {ports.begin(), ports.end()};
}

TEST(TableCore, GivesEveryPortOfTheRangeOnce) {
    for (const auto& [has_v4, has_v6] : {std::pair(true, true), {true, false}, {false, true}}) {
        CoreTable table(kSmall);
        const auto ports = take_all(*table, table.wildcard(has_v4, has_v6));
        EXPECT_EQ(ports.size(), kSmall.size());
        EXPECT_EQ(as_set(ports).size(), kSmall.size());
        EXPECT_EQ(*as_set(ports).begin(), kSmall.first);
        EXPECT_EQ(*as_set(ports).rbegin(), kSmall.last);
    }
}

TEST(TableCore, GivesEveryPortThereIs) {
    CoreTable table({1, 65535});
    const auto ports = take_all(*table, table.wildcard(true, true));
    EXPECT_EQ(ports.size(), 65'535U);
    EXPECT_EQ(as_set(ports).size(), 65'535U);
}

TEST(TableCore, ReleasedPortIsFreeAgainWithoutARest) {
    CoreTable table({40000, 40000});
    const Footprint both = table.wildcard(true, true);
    for (unsigned i = 0; i < 10; ++i) {
        const MaybePort port = table->take(both, {}, own_word());
        ASSERT_TRUE(port);
        EXPECT_FALSE(table->take(both, {}, own_word()));
        table->release(both, *port, own_word());
    }
}

TEST(TableCore, ReleasedPortRestsBeforeReuse) {
    CoreTable table(kSmall, 3'600'000);
    const Footprint v4 = table.wildcard(true, false);
    std::set<std::uint16_t> seen;
    for (unsigned i = 0; i < kSmall.size(); ++i) {
        const MaybePort port = table->take(v4, {}, own_word());
        ASSERT_TRUE(port);
        EXPECT_TRUE(seen.insert(*port).second) << "given again although others were free";
        table->release(v4, *port, own_word());
    }
    EXPECT_EQ(table->header().counters.early_rests.load(), 0U);
    EXPECT_TRUE(table->take(v4, {}, own_word()));
    EXPECT_EQ(table->header().counters.early_rests.load(), 1U);
}

TEST(TableCore, SecondReleaseAndSomebodyElsesReleaseDoNothing) {
    CoreTable table(kSmall);
    const Footprint both = table.wildcard(true, true);
    const MaybePort port = table->take(both, {}, own_word());
    ASSERT_TRUE(port);
    const OwnerWord stranger = with_kind(OwnerKind::process, ProcessIdentity{1, 1}.packed());
    table->release(both, *port, stranger);
    EXPECT_FALSE(table.space(kV4).free.is_free(*port));
    table->release(both, *port, own_word());
    EXPECT_TRUE(table.space(kV4).free.is_free(*port));
    EXPECT_TRUE(table->claim(both, *port, stranger));
    table->release(both, *port, own_word());
    EXPECT_FALSE(table.space(kV4).free.is_free(*port));
    EXPECT_EQ(table.space(kV6).owner(*port), stranger);
}

TEST(TableCore, RangeOfTheAskIsRespectedToTheLastPort) {
    CoreTable table({32768, 60999});
    const auto ports = take_all(*table, table.wildcard(true, false), {.range = {40000, 40100}});
    EXPECT_EQ(as_set(ports).size(), 101U);
    EXPECT_EQ(*as_set(ports).begin(), 40000);
    EXPECT_EQ(*as_set(ports).rbegin(), 40100);
}

TEST(TableCore, ExcludedPortIsNotGiven) {
    CoreTable table(kSmall);
    const auto ports = take_all(*table, table.wildcard(true, false), {.excluded = 40007});
    EXPECT_EQ(ports.size(), kSmall.size() - 1);
    EXPECT_FALSE(as_set(ports).contains(40007));
}

TEST(TableCore, PortMustBeFreeInTheAdditionalSetToo) {
    CoreTable table(kSmall);
    auto set = std::make_unique<PortSet>();
    set->release(40003);
    set->release(40009);
    const auto ports = take_all(*table, table.wildcard(true, false), {.also_free_in = set.get()});
    EXPECT_EQ(as_set(ports), (std::set<std::uint16_t>{40003, 40009}));
}

TEST(TableCore, WrongCountersCostTimeButNoPort) {
    for (const bool is_too_high : {false, true}) {
        CoreTable table({32768, 60999});
        PortSet& set = table.space(kV4).free;
        auto other = std::make_unique<PortSet>();
        // What a killed process leaves: bits and counters that disagree.
        for (unsigned port = 32768; port <= 60999; ++port) {
            const auto number = static_cast<std::uint16_t>(port);
            if (port % 3 == 0) is_too_high ? set.claim(number) : other->claim(number);
        }
        auto* raw = reinterpret_cast<std::byte*>(&set);
        constexpr std::size_t kCountsOffset = sizeof(PortBits);
        std::memset(raw + kCountsOffset, is_too_high ? 0x11 : 0, sizeof(PortSet) - kCountsOffset);
        const auto ports = take_all(*table, table.wildcard(true, false));
        EXPECT_EQ(as_set(ports).size(), ports.size());
        EXPECT_EQ(ports.size(), is_too_high ? 18'821U : 28'232U);
        EXPECT_EQ(set.free_count(), 0U);
    }
}

TEST(TableCore, OverlappingSpacesExcludeEachOther) {
    struct Case {
        const char* local;
        bool is_dual_stack;
        const char* other;
        bool other_is_dual_stack;
        bool overlaps;
    };
    const Case cases[] = {
        {"0.0.0.0", false, "0.0.0.0", false, true},
        {"0.0.0.0", false, "::", true, true},
        {"0.0.0.0", false, "::", false, false},
        {"::", true, "::", true, true},
        {"::", true, "::", false, true},
        {"127.0.0.2", false, "0.0.0.0", false, true},
        {"127.0.0.2", false, "::", true, true},
        {"127.0.0.2", false, "::", false, false},
        {"127.0.0.2", false, "127.0.0.2", false, true},
        {"127.0.0.2", false, "127.0.0.3", false, false},
        {"127.0.0.2", false, "::1", false, false},
        {"::1", false, "::", true, true},
        {"::1", false, "::", false, true},
        {"::1", false, "0.0.0.0", false, false},
        {"::1", false, "2001:db8::1", false, false},
        {"fe80::1%1", false, "fe80::1%2", false, false},
    };
    for (const Case& each : cases) {
        for (const bool is_turned : {false, true}) {
            CoreTable table({40000, 40000});
            const Footprint one = table.bind(address(each.local), each.is_dual_stack);
            const Footprint two = table.bind(address(each.other), each.other_is_dual_stack);
            ASSERT_TRUE(table->take(is_turned ? two : one, {}, own_word()));
            EXPECT_EQ(!table->take(is_turned ? one : two, {}, own_word()), each.overlaps)
                << each.local << " and " << each.other;
        }
    }
}

// Both have made their footprints before either has claimed.
TEST(TableCore, WildcardTakerSeesAnAddressThatIsNewSinceItsFootprint) {
    CoreTable table({40000, 40000});
    const Footprint wildcard = table.wildcard(true, false);
    const Footprint specific = table.bind(address("127.0.0.2"));
    ASSERT_TRUE(table->take(specific, {}, own_word()));
    EXPECT_FALSE(table->claim(wildcard, 40000, own_word()));
    EXPECT_FALSE(table->take(wildcard, {}, own_word()));
}

TEST(TableCore, FailedClaimInTwoSpacesLeavesNothingBehind) {
    CoreTable table({40000, 40000});
    ASSERT_TRUE(table->claim(table.wildcard(true, false), 40000, own_word()));
    EXPECT_FALSE(table->claim(table.wildcard(true, true), 40000, own_word()));
    EXPECT_FALSE(table->claim_exactly(table.wildcard(true, true), 40000, own_word()));
    EXPECT_TRUE(table.space(kV6).free.is_free(40000));
    EXPECT_EQ(table.space(kV6).owner(40000), kNobody);
    table->release(table.wildcard(true, false), 40000, own_word());
    EXPECT_TRUE(table->claim(table.wildcard(true, true), 40000, own_word()));
}

TEST(TableCore, ClaimExactlyOverrulesRestsLossesTheKernelAndTheDead) {
    CoreTable table(kSmall, 3'600'000);
    const Footprint v4 = table.wildcard(true, false);
    PortSpace& space = table.space(kV4);
    ASSERT_TRUE(table->claim(v4, 40000, own_word()));
    table->release(v4, 40000, own_word());
    EXPECT_TRUE(table->claim_exactly(v4, 40000, own_word())) << "resting";
    ASSERT_TRUE(space.free.claim(40001));
    EXPECT_TRUE(table->claim_exactly(v4, 40001, own_word())) << "lost";
    ASSERT_TRUE(table->claim(v4, 40002, kernel_word(1)));
    EXPECT_TRUE(table->claim_exactly(v4, 40002, own_word())) << "the kernel's";
    // No process has this number: pid_max is 2^22 at most, and its start time is another.
    const OwnerWord dead = with_kind(OwnerKind::process, ProcessIdentity{1, 0xffff'ffff}.packed());
    ASSERT_TRUE(table->claim(v4, 40003, dead));
    EXPECT_TRUE(table->claim_exactly(v4, 40003, own_word())) << "a dead process's";
    for (std::uint16_t port = 40000; port <= 40003; ++port) {
        EXPECT_EQ(space.owner(port), own_word());
        EXPECT_FALSE(table->claim_exactly(v4, port, own_word())) << "a living process's";
    }
    ASSERT_TRUE(table->claim(v4, 40004, lease_word(1, 1)));
    EXPECT_FALSE(table->claim_exactly(v4, 40004, own_word())) << "a lease's";
    EXPECT_TRUE(table->claim_exactly(v4, 80, own_word())) << "outside the range";
}

TEST(TableCore, PortOutsideTheRangeIsNotGivenAfterItsRelease) {
    CoreTable table(kSmall);
    const Footprint v4 = table.wildcard(true, false);
    ASSERT_TRUE(table->claim_exactly(v4, 50000, own_word()));
    table->release(v4, 50000, own_word());
    EXPECT_FALSE(table.space(kV4).free.is_free(50000));
    EXPECT_EQ(take_all(*table, v4).size(), kSmall.size());
    EXPECT_TRUE(table->claim_exactly(v4, 50000, own_word()));
}

TEST(TableCore, KernelHeldPortIsNotGiven) {
    CoreTable table(kSmall);
    const Footprint both = table.wildcard(true, true);
    const MaybePort port = table->take(both, {}, own_word());
    ASSERT_TRUE(port);
    table->mark_kernel_held(both, *port, own_word());
    table->release(both, *port, own_word());
    EXPECT_EQ(kind_of(table.space(kV4).owner(*port)), OwnerKind::kernel);
    EXPECT_EQ(take_all(*table, both).size(), kSmall.size() - 1);
    EXPECT_EQ(table->header().counters.refused.load(), 1U);
}

TEST(TableCore, NarrowerRangeKeepsHeldPortsAndForgetsThemWhenTheyComeBack) {
    CoreTable table(kSmall);
    const Footprint v4 = table.wildcard(true, false);
    const auto held = take_all(*table, v4);
    table.allow({40000, 40007});
    EXPECT_FALSE(table->take(v4, {}, own_word()));
    for (const std::uint16_t port : held) table->release(v4, port, own_word());
    EXPECT_EQ(as_set(take_all(*table, v4)).size(), 8U);
}

TEST(TableCore, WiderRangeGivesTheNewPortsButNotThoseThatAreHeld) {
    CoreTable table(kSmall);
    const Footprint v4 = table.wildcard(true, false);
    ASSERT_EQ(take_all(*table, v4).size(), kSmall.size());
    table.allow({40000, 40003});
    table.allow({40000, 40031}, {40020});
    const auto ports = as_set(take_all(*table, v4));
    EXPECT_EQ(ports.size(), 15U);
    EXPECT_EQ(*ports.begin(), 40016);
    EXPECT_FALSE(ports.contains(40020));
}

TEST(TableCore, RestingPortsOfAnOldRangeAreNotGiven) {
    CoreTable table(kSmall, 3'600'000);
    const Footprint v4 = table.wildcard(true, false);
    for (const std::uint16_t port : take_all(*table, v4)) table->release(v4, port, own_word());
    table.allow({40000, 40003});
    EXPECT_EQ(as_set(take_all(*table, v4)), (std::set<std::uint16_t>{40000, 40001, 40002, 40003}));
    table.allow(kSmall);
    EXPECT_EQ(take_all(*table, v4).size(), 12U);
}

TEST(TableCore, ConnectionsAreCountedAndRestAfterTheLast) {
    CoreTable table(kSmall, 3'600'000);
    const PortSpace& connected = table.space(kConnectedSpace + kV4);
    table->add_connection(Family::ipv4, 40000);
    table->add_connection(Family::ipv4, 40000);
    EXPECT_EQ(connection_count_of(connected.owner(40000)), 2U);
    table->remove_connection(Family::ipv4, 40000);
    EXPECT_EQ(connection_count_of(connected.owner(40000)), 1U);
    EXPECT_FALSE(connected.resting.is_resting(40000));
    table->remove_connection(Family::ipv4, 40000);
    EXPECT_EQ(connected.owner(40000), kNobody);
    EXPECT_TRUE(connected.resting.is_resting(40000));
    table->remove_connection(Family::ipv4, 40000);
    EXPECT_EQ(connected.owner(40000), kNobody);
    table->add_connection(Family::ipv4, 40000);
    EXPECT_EQ(connection_count_of(connected.owner(40000)), 1U);
    EXPECT_FALSE(connected.resting.is_resting(40000));
}

TEST(TableCore, PromisesArePortsWithoutASocket) {
    CoreTable table(kSmall);
    const Footprint v4 = table.wildcard(true, false);
    const std::uint32_t spaces = all_spaces(table.bind(address("127.0.0.1")));
    ASSERT_TRUE(table->claim(v4, 40000, own_word()));
    ASSERT_TRUE(table->claim(v4, 40001, own_word() | kBoundFlag));
    LeaseEntry& lease = table->header().leases[0];
    lease.state = lease_word(0, 1);
    lease.deadline_ns = boot_now_ns() + 3'600'000'000'000;
    ASSERT_TRUE(table->claim(v4, 40002, lease_word(0, 1)));
    ASSERT_TRUE(table->claim(v4, 40003, kernel_word(1)));
    ASSERT_TRUE(table->claim(v4, 40004, lease_word(0, 2)));
    const OwnerWord dead = with_kind(OwnerKind::process, ProcessIdentity{1, 0x3ff'ffff}.packed());
    ASSERT_TRUE(table->claim(v4, 40005, dead));
    EXPECT_TRUE(table->is_promised(spaces, 40000));
    EXPECT_FALSE(table->is_promised(spaces, 40000, own_word())) << "to oneself";
    EXPECT_FALSE(table->is_promised(spaces, 40001)) << "to a socket, which the kernel knows";
    EXPECT_TRUE(table->is_promised(spaces, 40002));
    EXPECT_FALSE(table->is_promised(spaces, 40003));
    EXPECT_FALSE(table->is_promised(spaces, 40004)) << "by a lease that is gone";
    EXPECT_FALSE(table->is_promised(spaces, 40005)) << "to a dead process";
    EXPECT_FALSE(table->is_promised(spaces, 40006));
    lease.deadline_ns = 1;
    EXPECT_FALSE(table->is_promised(spaces, 40002)) << "by a lease that has expired";
}

TEST(TableCore, RunsAreFoundWhereTheyFitAndNowhereElse) {
    CoreTable table({40000, 40199});
    const Footprint both = table.wildcard(true, true);
    for (std::uint16_t port = 40000; port <= 40199; ++port) {
        const bool is_hole = port >= 40050 && port <= 40113;
        if (!is_hole && port % 2 == 0) {
            ASSERT_TRUE(table->claim(both, port, own_word()));
        }
    }
    for (unsigned i = 0; i < 50; ++i) {
        const MaybePort first = table->draw_run(both, 60, 1);
        ASSERT_TRUE(first);
        EXPECT_GE(*first, 40049);
        EXPECT_LE(*first, 40054);
        const MaybePort pair = table->draw_run(both, 2, 2);
        ASSERT_TRUE(pair);
        EXPECT_EQ(*pair % 2, 0);
        EXPECT_TRUE(*pair >= 40050 && *pair <= 40112) << *pair;
    }
    ASSERT_TRUE(table->draw_run(both, 64, 2));
    EXPECT_EQ(*table->draw_run(both, 64, 2), 40050);
    ASSERT_TRUE(table->claim(both, 40113, own_word()));
    EXPECT_FALSE(table->draw_run(both, 64, 2));
}

}  // namespace
}  // namespace berth::internal
