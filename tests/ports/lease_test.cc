// SPDX-License-Identifier: Apache-2.0
#include "src/ports/lease_book.h"

#include "tests/support/core_table.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using test::CoreTable;
using test::failed_with;
using test::in_network_namespace;
using test::poll_until;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40063};
constexpr unsigned kV4 = static_cast<unsigned>(Family::ipv4);
constexpr unsigned kV6 = static_cast<unsigned>(Family::ipv6);

std::uint32_t free_count(CoreTable& table) {
    EXPECT_EQ(table.space(kV4).free.free_count(), table.space(kV6).free.free_count());
    return table.space(kV4).free.free_count();
}

TEST(LeaseBook, GrantsAnyPortsOfTheRangeAscending) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {.count = 40});
    ASSERT_TRUE(succeeded(lease));
    EXPECT_NE(lease->token, 0U);
    EXPECT_EQ(lease->ports.size(), 40U);
    EXPECT_TRUE(std::ranges::is_sorted(lease->ports));
    EXPECT_EQ(std::set(lease->ports.begin(), lease->ports.end()).size(), 40U);
    EXPECT_TRUE(kSmall.contains(lease->ports.front()) && kSmall.contains(lease->ports.back()));
    EXPECT_EQ(free_count(table), 24U);
    EXPECT_EQ(count_leased(*table), 40U);
}

TEST(LeaseBook, GrantsConsecutivePorts) {
    // Wherever the first three lie, 64 in a row are left.
    CoreTable table({40000, 40399});
    for (const std::uint32_t count : {1U, 2U, 7U, 64U}) {
        const auto lease = grant_lease(*table, {.count = count, .shape = LeaseShape::consecutive});
        ASSERT_TRUE(succeeded(lease)) << count;
        ASSERT_EQ(lease->ports.size(), count);
        for (std::size_t i = 1; i < count; ++i) {
            EXPECT_EQ(lease->ports[i], lease->ports[0] + i);
        }
    }
}

TEST(LeaseBook, GrantsPairsThatStartEven) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {.count = 64, .shape = LeaseShape::even_odd_pairs});
    ASSERT_TRUE(succeeded(lease));
    ASSERT_EQ(lease->ports.size(), 64U);
    for (std::size_t i = 0; i < 64; i += 2) {
        EXPECT_EQ(lease->ports[i] % 2, 0);
        EXPECT_EQ(lease->ports[i] + 1, lease->ports[i + 1]);
    }
}

TEST(LeaseBook, AllPortsOrNone) {
    CoreTable table({40000, 40009});
    for (const LeaseShape shape :
         {LeaseShape::any, LeaseShape::consecutive, LeaseShape::even_odd_pairs}) {
        EXPECT_TRUE(
            failed_with(grant_lease(*table, {.count = 12, .shape = shape}), Errc::ports_exhausted));
        EXPECT_EQ(free_count(table), 10U);
        EXPECT_TRUE(succeeded(grant_lease(*table, {.count = 2, .shape = shape})));
        CoreTable fresh({40000, 40009});
        EXPECT_TRUE(succeeded(grant_lease(*fresh, {.count = 10, .shape = shape})));
        for (LeaseEntry& entry : table->header().leases) {
            if (entry.state.load() != kNobody) {
                EXPECT_TRUE(succeeded(give_back_lease(*table, entry.token)));
            }
        }
    }
}

TEST(LeaseBook, RefusesWhatIsOutsideAndSaysWhatIsAccepted) {
    CoreTable table(kSmall);
    const std::pair<LeaseOptions, const char*> cases[] = {
        {{.count = 0}, "count"},
        {{.count = 65}, "count"},
        {{.count = 3, .shape = LeaseShape::even_odd_pairs}, "count"},
        {{.expires_in = milliseconds(0)}, "expires_in"},
        {{.expires_in = milliseconds(-1)}, "expires_in"},
        {{.expires_in = milliseconds::max()}, "expires_in"},
        {{.expires_in = std::chrono::hours(24 * 365) + milliseconds(1)}, "expires_in"},
    };
    for (const auto& [options, named] : cases) {
        const auto lease = grant_lease(*table, options);
        ASSERT_TRUE(failed_with(lease, Errc::invalid_argument));
        EXPECT_THAT(lease.error().message(), HasSubstr(named));
        EXPECT_THAT(lease.error().message(), HasSubstr("give "));
    }
    EXPECT_EQ(free_count(table), kSmall.size());
    EXPECT_TRUE(succeeded(grant_lease(*table, {.expires_in = std::chrono::hours(24 * 365)})));
}

TEST(LeaseBook, ClaimMakesOnePortTheCallersAndLeavesTheOthers) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {.count = 3});
    ASSERT_TRUE(succeeded(lease));
    const auto claimed = claim_leased(*table, lease->ports[1], lease->token, own_word());
    ASSERT_TRUE(succeeded(claimed));
    EXPECT_TRUE(failed_with(claim_leased(*table, lease->ports[1], lease->token, own_word()),
                            Errc::not_holder));
    EXPECT_TRUE(succeeded(give_back_lease(*table, lease->token)));
    EXPECT_EQ(free_count(table), kSmall.size() - 1);
    table->release(*claimed, lease->ports[1], own_word());
    EXPECT_EQ(free_count(table), kSmall.size());
}

TEST(LeaseBook, WrongTokenAndWrongPortAreNotTheHolders) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {.count = 2});
    const auto other = grant_lease(*table, {.count = 2});
    ASSERT_TRUE(lease && other);
    for (const std::uint64_t token : {std::uint64_t{0}, lease->token + 1, other->token}) {
        EXPECT_TRUE(failed_with(claim_leased(*table, lease->ports[0], token, own_word()),
                                Errc::not_holder));
    }
    for (const std::uint16_t port : {std::uint16_t{0}, std::uint16_t{80}, std::uint16_t{65535}}) {
        EXPECT_TRUE(
            failed_with(claim_leased(*table, port, lease->token, own_word()), Errc::not_holder));
    }
    EXPECT_TRUE(failed_with(renew_lease(*table, 1, milliseconds(1)), Errc::not_holder));
    EXPECT_TRUE(failed_with(give_back_lease(*table, 1), Errc::not_holder));
    EXPECT_EQ(count_leased(*table), 4U);
}

TEST(LeaseBook, GivenBackTwiceIsNotTheHolders) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {});
    ASSERT_TRUE(succeeded(lease));
    EXPECT_TRUE(succeeded(give_back_lease(*table, lease->token)));
    EXPECT_TRUE(failed_with(give_back_lease(*table, lease->token), Errc::not_holder));
    EXPECT_TRUE(failed_with(renew_lease(*table, lease->token, milliseconds(5)), Errc::not_holder));
    EXPECT_TRUE(failed_with(claim_leased(*table, lease->ports[0], lease->token, own_word()),
                            Errc::not_holder));
    EXPECT_EQ(free_count(table), kSmall.size());
}

TEST(LeaseBook, ExpiredLeaseComesBackAndCanNoLongerBeUsed) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {.count = 5, .expires_in = milliseconds(1)});
    ASSERT_TRUE(succeeded(lease));
    ASSERT_TRUE(poll_until([&] {
        return failed_with(renew_lease(*table, lease->token, milliseconds(1)),
                           Errc::lease_expired) ||
               boot_now_ns() > static_cast<std::uint64_t>(lease->deadline.count());
    }));
    ASSERT_TRUE(poll_until([&] {
        return bool(failed_with(claim_leased(*table, lease->ports[0], lease->token, own_word()),
                                Errc::lease_expired));
    }));
    EXPECT_TRUE(
        failed_with(renew_lease(*table, lease->token, milliseconds(100)), Errc::lease_expired));
    EXPECT_EQ(expire_leases(*table), 5U);
    EXPECT_EQ(free_count(table), kSmall.size());
    EXPECT_TRUE(failed_with(renew_lease(*table, lease->token, milliseconds(1)), Errc::not_holder));
}

TEST(LeaseBook, RenewedLeaseOutlivesItsFirstDeadline) {
    CoreTable table(kSmall);
    const auto lease = grant_lease(*table, {.expires_in = std::chrono::seconds(5)});
    ASSERT_TRUE(succeeded(lease));
    const auto deadline = renew_lease(*table, lease->token, std::chrono::hours(1));
    ASSERT_TRUE(succeeded(deadline));
    EXPECT_GT(*deadline, lease->deadline + std::chrono::minutes(50));
    const auto sooner = renew_lease(*table, lease->token, milliseconds(1));
    ASSERT_TRUE(succeeded(sooner));
    EXPECT_LT(*sooner, lease->deadline);
    EXPECT_TRUE(poll_until([&] { return expire_leases(*table) > 0; }));
}

TEST(LeaseBook, HoldsAsManyLeasesAsItSaysAndReusesExpiredOnes) {
    CoreTable table({32768, 60999});
    std::vector<Lease> leases;
    for (unsigned i = 0; i < kLeaseCount; ++i) {
        auto lease = grant_lease(*table, {});
        ASSERT_TRUE(succeeded(lease));
        leases.push_back(std::move(*lease));
    }
    const auto refused = grant_lease(*table, {});
    ASSERT_TRUE(failed_with(refused, Errc::too_many_leases));
    EXPECT_THAT(refused.error().message(), HasSubstr("4096"));
    ASSERT_TRUE(succeeded(renew_lease(*table, leases[7].token, milliseconds(1))));
    EXPECT_TRUE(poll_until([&] { return grant_lease(*table, {}).has_value(); }));
    EXPECT_TRUE(failed_with(claim_leased(*table, leases[7].ports[0], leases[7].token, own_word()),
                            Errc::not_holder));
}

// Another process was killed while it made a lease, after it had taken two ports for it.
TEST(LeaseBook, HalfMadeLeaseOfADeadProcessComesBack) {
    CoreTable table(kSmall);
    const OwnerWord dead = with_kind(OwnerKind::process, ProcessIdentity{1, 0xffff'ffff}.packed());
    LeaseEntry& entry = table->header().leases[9];
    entry.state = dead;
    entry.generation = 4;
    entry.deadline_ns = ~std::uint64_t{0};
    ASSERT_TRUE(table->claim(table.wildcard(true, true), 40000, lease_word(9, 4)));
    ASSERT_TRUE(table->claim(table.wildcard(false, true), 40001, lease_word(9, 4)));
    EXPECT_EQ(expire_leases(*table), 2U);
    EXPECT_EQ(free_count(table), kSmall.size());
}

TEST(LeaseBook, LeaseThatIsBeingMadeIsNotTakenApart) {
    CoreTable table(kSmall);
    table->header().leases[9].state = own_word();
    ASSERT_TRUE(table->claim(table.wildcard(true, true), 40000, lease_word(9, 1)));
    EXPECT_EQ(expire_leases(*table), 0U);
    EXPECT_EQ(free_count(table), kSmall.size() - 1);
}

TEST(LeaseBook, DamagedIndexInAnOwnerWordIsNoLease) {
    CoreTable table(kSmall);
    ASSERT_TRUE(table->claim(table.wildcard(true, true), 40000, lease_word(0xffff, 1)));
    EXPECT_FALSE(is_valid_lease(table->header(), lease_word(0xffff, 1)));
    EXPECT_EQ(expire_leases(*table), 1U);
}

TEST(Lease, TableGrantsClaimsRenewsAndTakesBack) {
    in_network_namespace({.range = {40000, 40007}}, [] {
        PortTable table = test::new_table(Protocol::tcp, {.rest_period = milliseconds(0)});
        const auto lease = table.lease({.count = 4, .shape = LeaseShape::even_odd_pairs});
        ASSERT_TRUE(succeeded(lease));
        EXPECT_EQ(table.statistics().leased_count, 4U);
        {
            const auto port = table.claim(lease->ports[0], lease->token);
            ASSERT_TRUE(succeeded(port));
            EXPECT_EQ(port->number(), lease->ports[0]);
            EXPECT_EQ(table.statistics().leased_count, 3U);
        }
        EXPECT_TRUE(succeeded(table.renew(lease->token, std::chrono::seconds(5))));
        EXPECT_TRUE(succeeded(table.give_back(lease->token)));
        EXPECT_TRUE(failed_with(table.give_back(lease->token), Errc::not_holder));
        EXPECT_EQ(table.statistics().free_count, 8U);
    });
}

TEST(Lease, ExhaustionHasItsFigures) {
    in_network_namespace({.range = {40000, 40007}}, [] {
        PortTable table = test::new_table(Protocol::tcp);
        const auto first = table.lease({.count = 8});
        ASSERT_TRUE(succeeded(first));
        const auto lease = table.lease({.count = 2});
        ASSERT_TRUE(failed_with(lease, Errc::ports_exhausted));
        EXPECT_THAT(lease.error().message(), HasSubstr("40000-40007"));
    });
}

TEST(Lease, ExpiredLeasesComeBackWhenPortsAreNeeded) {
    in_network_namespace({.range = {40000, 40007}}, [] {
        PortTable table = test::new_table(Protocol::udp);
        ASSERT_TRUE(succeeded(table.lease({.count = 8, .expires_in = milliseconds(1)})));
        EXPECT_TRUE(poll_until([&] { return table.take().has_value(); }));
    });
}

}  // namespace
}  // namespace berth::internal
