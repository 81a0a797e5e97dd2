// SPDX-License-Identifier: Apache-2.0
// What is left of a TCP connection when it is closed, and when its port may be had again.
#include "tests/interpose/bpf/covered.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace berth::test {
namespace {

using internal::bpf::TableMap;
using namespace std::chrono_literals;

Descriptor accept_from(const Descriptor& listener) {
    return Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

// Trap 8.
TEST(BpfRelease, PortInTimeWaitIsNotGivenOut) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor destination = server(5000);
        Bound client = connect_new(kTcp, at(5000));
        ASSERT_EQ(client.error, 0);
        Descriptor accepted(::accept4(destination.get(), nullptr, nullptr, SOCK_CLOEXEC));
        client.socket.reset();
        accepted.reset();
        const TableMap table = covered.table(kTcp);
        EXPECT_FALSE(table.is_free(client.port));
        EXPECT_TRUE(table.is_resting(client.port, true));
        covered.look_thoroughly();
        EXPECT_TRUE(table.is_resting(client.port, true));
        const std::vector<Bound> all = bind_all(kTcp);
        EXPECT_EQ(all.size(), kSmallRange.size() - 1);
    });
}

TEST(BpfRelease, LengthyRestInVainEndsWithTheNextLook) {
    in_covered_namespace([](Covered& covered) {
        Bound bound = bind_zero(kTcp);
        ASSERT_EQ(::listen(bound.socket.get(), 5), 0);
        bound.socket.reset();
        const TableMap table = covered.table(kTcp);
        EXPECT_TRUE(table.is_resting(bound.port, true));
        covered.look();
        EXPECT_TRUE(table.is_free(bound.port));
    });
}

TEST(BpfRelease, SocketThatNeverConnectedRestsBriefly) {
    in_covered_namespace([](Covered& covered) {
        Bound bound = bind_zero(kTcp);
        bound.socket.reset();
        EXPECT_TRUE(covered.table(kTcp).is_resting(bound.port, false));
        EXPECT_FALSE(covered.table(kTcp).is_resting(bound.port, true));
    });
}

// Trap 9.
TEST(BpfRelease, ListenerThatClosesBeforeItsConnections) {
    in_covered_namespace([](Covered& covered) {
        Bound bound = bind_zero(kTcp, Address::loopback(Family::ipv4));
        ASSERT_EQ(::listen(bound.socket.get(), 5), 0);
        Bound client = connect_new(kTcp, at(bound.port));
        ASSERT_EQ(client.error, 0);
        Bound other = connect_new(kTcp, at(bound.port));
        Descriptor first(::accept4(bound.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        Descriptor second(::accept4(bound.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        second.reset();
        EXPECT_EQ(covered.owner_kind(kTcp, bound.port), BERTH_HELD);
        bound.socket.reset();
        EXPECT_FALSE(covered.table(kTcp).is_free(bound.port));
        covered.look_thoroughly();
        EXPECT_EQ(covered.owner_kind(kTcp, bound.port), BERTH_KERNEL);
        client.socket.reset();
        other.socket.reset();
        first.reset();
        covered.look_thoroughly();
        // The second of the accepted ones has closed first: it is in TIME_WAIT.
        EXPECT_EQ(covered.owner_kind(kTcp, bound.port), BERTH_NOBODY);
        EXPECT_TRUE(covered.table(kTcp).is_resting(bound.port, true));
    });
}

TEST(BpfRelease, PortOfAConnectionThatTheOtherSideClosedFirstRestsBriefly) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor destination = server(5000);
        Bound client = connect_new(kTcp, at(5000));
        ASSERT_EQ(client.error, 0);
        accept_from(destination).reset();
        char byte = 0;
        ASSERT_EQ(::recv(client.socket.get(), &byte, 1, 0), 0);
        client.socket.reset();
        EXPECT_TRUE(covered.table(kTcp).is_resting(client.port, false));
        EXPECT_FALSE(covered.table(kTcp).is_resting(client.port, true));
        covered.look_thoroughly();
        EXPECT_TRUE(covered.is_true(kTcp));
    });
}

TEST(BpfRelease, PortOfAConnectionThatIsResetRestsBriefly) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor destination = server(5000);
        Bound client = connect_new(kTcp, at(5000));
        ASSERT_EQ(client.error, 0);
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        ASSERT_EQ(
            ::setsockopt(client.socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        client.socket.reset();
        EXPECT_TRUE(covered.table(kTcp).is_resting(client.port, false));
        EXPECT_FALSE(covered.table(kTcp).is_resting(client.port, true));
    });
}

// A listener leaves the connections that it has accepted, whatever it does with its own.
TEST(BpfRelease, ListenerThatWouldResetRestsAsAnyOther) {
    in_covered_namespace([](Covered& covered) {
        Bound bound = bind_zero(kTcp);
        ASSERT_EQ(::listen(bound.socket.get(), 5), 0);
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        ASSERT_EQ(
            ::setsockopt(bound.socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        bound.socket.reset();
        EXPECT_TRUE(covered.table(kTcp).is_resting(bound.port, true));
    });
}

// The kernel connects on loopback from a port in TIME_WAIT after a second (tcp_tw_reuse).
TEST(BpfConnect, DestinationIsReachedAgainAsSoonAsTheKernelAllows) {
    in_covered_namespace([](Covered& covered) {
        const Descriptor destination = server(5000);
        const auto connect_all = [&] {
            std::vector<Descriptor> accepted;  // closed after `all`, so that those are in TIME_WAIT
            std::vector<Bound> all;
            for (unsigned i = 0; i < kSmallRange.size(); ++i) {
                all.push_back(connect_new(kTcp, at(5000)));
                if (all.back().error != 0) {
                    all.pop_back();
                    break;
                }
                accepted.push_back(accept_from(destination));
            }
            return all.size();
        };
        EXPECT_EQ(connect_all(), kSmallRange.size());
        EXPECT_EQ(connect_new(kTcp, at(5000)).error, EADDRNOTAVAIL);
        std::size_t again = 0;
        for (int tries = 0; tries < 100 && again <= kSmallRange.size() / 2; ++tries) {
            std::this_thread::sleep_for(100ms);
            again = connect_all();
        }
        // All were closed within one moment, or nearly so, and the clock goes in steps.
        EXPECT_GT(again, kSmallRange.size() / 2);
        EXPECT_TRUE(covered.is_true(kTcp));
    });
}

}  // namespace
}  // namespace berth::test
