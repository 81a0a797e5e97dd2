// SPDX-License-Identifier: Apache-2.0
#include "src/ports/destinations.h"

#include "tests/support/core_table.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace berth::internal {
namespace {

using test::address;
using test::CoreTable;

constexpr std::uint64_t kHourMs = 3'600'000;

class DestinationTest : public testing::Test {
protected:
    std::vector<std::uint16_t> take_all(Destination& destination) {
        std::vector<std::uint16_t> ports;
        while (const MaybePort port = destination.take(*table_, footprint_, {})) {
            ports.push_back(*port);
        }
        return ports;
    }

    static constexpr PortRange kRange = {40000, 40099};
    CoreTable table_{kRange};
    Footprint footprint_ = footprint_of_connection(Family::ipv4);
    Destination destination_;
};

TEST_F(DestinationTest, GivesEveryPortOnceFromTheSmallArrayToTheBitmap) {
    const auto ports = take_all(destination_);
    EXPECT_EQ(std::set(ports.begin(), ports.end()).size(), kRange.size());
    EXPECT_EQ(ports.size(), kRange.size());
    for (const std::uint16_t port : ports) destination_.unclaim(port);
    EXPECT_EQ(take_all(destination_).size(), kRange.size());
}

TEST_F(DestinationTest, BoundPortsAreNotGiven) {
    ASSERT_TRUE(table_->claim(table_.wildcard(true, false), 40007, own_word()));
    ASSERT_TRUE(table_->claim(table_.bind(address("127.0.0.1")), 40008, own_word()));
    const auto ports = take_all(destination_);
    EXPECT_EQ(ports.size(), kRange.size() - 2);
    EXPECT_EQ(std::ranges::count(ports, 40007), 0);
    EXPECT_EQ(std::ranges::count(ports, 40008), 0);
}

TEST_F(DestinationTest, ClosedConnectionsRestAndAreUsedEarlyOldestFirst) {
    const auto ports = take_all(destination_);
    const std::uint64_t now = coarse_now_ms();
    destination_.release(ports[0], now, kHourMs);
    destination_.release(ports[1], now, kHourMs);
    const MaybePort first = destination_.take(*table_, footprint_, {});
    ASSERT_TRUE(first);
    EXPECT_EQ(*first, ports[0]);
    EXPECT_EQ(take_all(destination_), (std::vector{ports[1]}));
}

TEST_F(DestinationTest, RestThatIsOverIsNotWaitedFor) {
    const MaybePort port = destination_.take(*table_, footprint_, {});
    ASSERT_TRUE(port);
    destination_.release(*port, coarse_now_ms() - kHourMs, 1);
    EXPECT_EQ(take_all(destination_).size(), kRange.size());
}

TEST_F(DestinationTest, ForeignPortsComeBackWhenTheKernelNoLongerShowsThem) {
    const auto ports = take_all(destination_);
    destination_.mark_foreign(ports[3]);
    destination_.mark_foreign(ports[4]);
    destination_.refresh({ports[4], ports[4]}, kRange);
    EXPECT_EQ(take_all(destination_), (std::vector{ports[3]}));
    destination_.refresh({}, kRange);
    EXPECT_EQ(take_all(destination_), (std::vector{ports[4]}));
}

TEST_F(DestinationTest, ConnectionsOfOthersAreLearned) {
    destination_.refresh({40001, 40002, 50000}, kRange);
    const auto ports = take_all(destination_);
    EXPECT_EQ(ports.size(), kRange.size() - 2);
    EXPECT_EQ(std::ranges::count(ports, 40001), 0);
}

TEST_F(DestinationTest, PortThatTheKernelChoseIsUsed) {
    EXPECT_TRUE(destination_.adopt(40005, kRange));
    EXPECT_FALSE(destination_.adopt(40005, kRange));
    const auto ports = take_all(destination_);
    EXPECT_EQ(ports.size(), kRange.size() - 1);
    destination_.release(40005, coarse_now_ms(), 0);
    EXPECT_EQ(take_all(destination_), (std::vector<std::uint16_t>{40005}));
}

TEST_F(DestinationTest, WiderRangeIsUsed) {
    EXPECT_EQ(take_all(destination_).size(), kRange.size());
    table_.allow({40000, 40149});
    const auto ports = take_all(destination_);
    EXPECT_EQ(ports.size(), 50U);
    EXPECT_GE(*std::ranges::min_element(ports), 40100);
}

TEST_F(DestinationTest, PinnedIsNotIdle) {
    EXPECT_TRUE(destination_.is_idle());
    destination_.pin();
    destination_.pin();
    destination_.unpin();
    EXPECT_FALSE(destination_.is_idle());
    destination_.unpin();
    EXPECT_TRUE(destination_.is_idle());
}

TEST_F(DestinationTest, RecheckIsAllowedOncePerInterval) {
    EXPECT_TRUE(destination_.may_recheck(1'000, 100));
    EXPECT_FALSE(destination_.may_recheck(1'099, 100));
    EXPECT_TRUE(destination_.may_recheck(1'100, 100));
}

TEST(Destinations, AreToldApartByAddressPortSourceAndScope) {
    Destinations destinations;
    const char* const remotes[] = {"192.0.2.1:80",     "192.0.2.1:81",   "192.0.2.2:80",
                                   "[2001:db8::1]:80", "[fe80::1%1]:80", "[fe80::1%2]:80"};
    std::set<Destination*> seen;
    for (const char* remote : remotes) {
        for (const char* local : {"0.0.0.0", "192.0.2.9"}) {
            const auto pin = destinations.find_or_make(address(remote), address(local));
            EXPECT_TRUE(seen.insert(pin.get()).second) << remote << " from " << local;
            EXPECT_EQ(destinations.find_or_make(address(remote), address(local)).get(), pin.get());
        }
    }
    EXPECT_EQ(destinations.count(), seen.size());
}

// Another address for each number.
Address nth_destination(unsigned n) {
    return address(("10." + std::to_string(n >> 16) + '.' + std::to_string(n >> 8 & 255) + '.' +
                    std::to_string(n & 255) + ":80")
                       .c_str());
}

TEST(Destinations, IdleOnesAreForgottenAndTheLimitHolds) {
    Destinations destinations;
    const Address anywhere = address("0.0.0.0");
    for (unsigned n = 0; n < 2 * Destinations::kLimit; ++n) {
        EXPECT_NE(destinations.find_or_make(nth_destination(n), anywhere).get(), nullptr);
    }
    EXPECT_LE(destinations.count(), Destinations::kLimit);
    std::vector<DestinationPin> pins;
    for (unsigned n = 0; n < Destinations::kLimit + 10'000; ++n) {
        pins.push_back(destinations.find_or_make(nth_destination(n), anywhere));
    }
    EXPECT_LE(destinations.count(), Destinations::kLimit);
    EXPECT_GE(
        std::ranges::count_if(pins, [](const DestinationPin& pin) { return pin.get() == nullptr; }),
        10'000);
}

}  // namespace
}  // namespace berth::internal
