// SPDX-License-Identifier: Apache-2.0
// How long a destination of TCP connections is remembered, and what it costs.
#include "src/ports/destinations.h"

#include "tests/support/core_table.h"
#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <berth/ports.h>

#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::address;
using test::Call;
using test::CoreTable;
using test::FaultPlan;
using test::in_network_namespace;
using test::new_socket;
using test::succeeded;

constexpr PortRange kRange = {40000, 40099};
constexpr std::uint64_t kHourMs = 3'600'000;

// Another destination for each number.
Address nth_destination(std::size_t n) {
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_port = htons(80);
    raw.sin_addr.s_addr = htonl(0x0a00'0000U + static_cast<std::uint32_t>(n));
    return Address::from(reinterpret_cast<const sockaddr*>(&raw), sizeof raw).value();
}

class DestinationMemory : public testing::Test {
protected:
    std::vector<std::uint16_t> take_all(Destination& destination) {
        std::vector<std::uint16_t> ports;
        while (const MaybePort port = destination.take(*table_, footprint_, {})) {
            ports.push_back(*port);
        }
        return ports;
    }

    CoreTable table_{kRange};
    const Footprint footprint_ = footprint_of_connection(Family::ipv4);
    const Address anywhere_ = Address::any(Family::ipv4);
};

TEST_F(DestinationMemory, OneWithAPortIsNeverForgotten) {
    Destinations destinations;
    Destination* held = nullptr;
    MaybePort port;
    {
        const DestinationPin pin = destinations.find_or_make(nth_destination(0), anywhere_);
        held = pin.get();
        held->pin();  // as a Port does
        port = held->take(*table_, footprint_, {});
        ASSERT_TRUE(port);
    }
    for (std::size_t n = 1; n <= 2 * Destinations::kLimit; ++n) {
        ASSERT_NE(destinations.find_or_make(nth_destination(n), anywhere_).get(), nullptr);
    }
    const DestinationPin again = destinations.find_or_make(nth_destination(0), anywhere_);
    ASSERT_EQ(again.get(), held);
    EXPECT_EQ(take_all(*held).size(), kRange.size() - 1) << "one is in use";
    held->release(*port, 0, 0);
    held->unpin();
}

TEST_F(DestinationMemory, WhatRestsOrIsForeignDoesNotKeepOneFromBeingForgotten) {
    Destinations destinations;
    for (std::size_t n = 0; n < 3 * Destinations::kLimit; ++n) {
        const DestinationPin pin = destinations.find_or_make(nth_destination(n), anywhere_);
        ASSERT_NE(pin.get(), nullptr) << "the " << n << "th of the destinations";
        const MaybePort port = pin.get()->take(*table_, footprint_, {});
        ASSERT_TRUE(port);
        if (n % 2 == 0) {
            pin.get()->release(*port, coarse_now_ms(), kHourMs);
        } else {
            pin.get()->mark_foreign(*port);
        }
    }
    EXPECT_LE(destinations.count(), Destinations::kLimit);
}

// 15 of 16 ports are connected to one destination; then come more others than can be remembered.
// The first is still known when it is next connected to: the kernel need not refuse a port.
TEST(ConnectionMemory, DestinationOfALivingConnectionIsNotForgotten) {
    in_network_namespace({.range = {40000, 40015}}, [] {
        PortTable table =
            test::new_table(Protocol::tcp, {.rest_period = std::chrono::milliseconds(0)});
        const Address remote = address("127.0.0.1:20000");
        const Descriptor server = test::listener(remote);
        std::vector<std::pair<Socket, Port>> connections;
        const auto connect = [&] {
            Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            auto port = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(port));
            connections.emplace_back(std::move(socket), std::move(*port));
        };
        for (unsigned i = 0; i < 15; ++i) connect();
        {
            FaultPlan faults;
            faults.fail(Call::connect, ECONNREFUSED);
            const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            for (std::size_t n = 0; n < Destinations::kLimit + 20'000; ++n) {
                const auto port = table.connect(socket, nth_destination(n));
                ASSERT_FALSE(port);
                ASSERT_EQ(port.error().code(), Errc::refused);
            }
        }
        connect();
        EXPECT_EQ(table.statistics().refused_count, 0U);
    });
}

TEST_F(DestinationMemory, PortsAreCountedRightlyWhileTheRangeShrinksAndGrows) {
    Destination destination;
    for (unsigned round = 0; round < 3; ++round) {
        std::set<std::uint16_t> used;
        for (unsigned i = 0; i < 60; ++i) used.insert(*destination.take(*table_, footprint_, {}));
        EXPECT_EQ(used.size(), 60U);
        table_.allow({40000, 40049});
        for (const std::uint16_t port : take_all(destination)) {
            EXPECT_LT(port, 40050);
            EXPECT_TRUE(used.insert(port).second) << port << " twice";
        }
        for (std::uint16_t port = 40000; port < 40050; ++port) EXPECT_TRUE(used.contains(port));
        for (const std::uint16_t port : used) destination.unclaim(port);
        table_.allow(kRange);
        const auto all = take_all(destination);
        EXPECT_EQ(std::set(all.begin(), all.end()).size(), kRange.size());
        EXPECT_EQ(all.size(), kRange.size());
        for (const std::uint16_t port : all) destination.unclaim(port);
    }
}

// Before the set has grown, too: a few ports are many in what is left of the range.
TEST_F(DestinationMemory, FewPortsAreManyInARangeThatHasShrunk) {
    Destination destination;
    std::set<std::uint16_t> used;
    for (unsigned i = 0; i < 20; ++i) used.insert(*destination.take(*table_, footprint_, {}));
    table_.allow({40000, 40007});
    for (const std::uint16_t port : take_all(destination)) {
        EXPECT_LE(port, 40007);
        EXPECT_TRUE(used.insert(port).second) << port << " twice";
    }
    for (std::uint16_t port = 40000; port <= 40007; ++port) EXPECT_TRUE(used.contains(port));
}

// Nothing is in use any more, so no bitmap of 16 KiB is needed.
TEST_F(DestinationMemory, RangeThatShrankLeavesNoMemoryBehind) {
    constexpr std::size_t kDestinationCount = 64;
    std::vector<Destination> destinations(kDestinationCount);
    const std::size_t before = ::mallinfo2().uordblks;
    for (Destination& destination : destinations) {
        table_.allow(kRange);
        std::vector<std::uint16_t> ports;
        for (unsigned i = 0; i < 60; ++i) {
            ports.push_back(*destination.take(*table_, footprint_, {}));
        }
        table_.allow({40000, 40049});
        for (const std::uint16_t port : take_all(destination)) ports.push_back(port);
        for (const std::uint16_t port : ports) destination.unclaim(port);
    }
    const std::size_t after = ::mallinfo2().uordblks;
    EXPECT_LT(after, before + kDestinationCount * sizeof(PortSet) / 2);
}

}  // namespace
}  // namespace berth::internal
