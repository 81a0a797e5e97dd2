// SPDX-License-Identifier: Apache-2.0
#include <berth/ports.h>

#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace berth {
namespace {

using std::chrono::milliseconds;
using test::failed_with;
using test::in_network_namespace;
using test::kProtocols;
using test::new_socket;
using test::new_table;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};
const TableOptions kNoRest = {.rest_period = milliseconds(0)};

TEST(PortTable, FollowsTheNamespace) {
    in_network_namespace({.range = kSmall, .reserved = "40001,40003"}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol);
            EXPECT_EQ(table.protocol(), protocol);
            EXPECT_EQ(table.range(), kSmall);
            EXPECT_EQ(table.descriptor(), -1);
            const TableStatistics statistics = table.statistics();
            EXPECT_EQ(statistics.range, kSmall);
            EXPECT_EQ(statistics.allowed_count, 14U);
            EXPECT_EQ(statistics.free_count, 14U);
            EXPECT_EQ(statistics.reconcile_count, 1U);
        }
    });
}

TEST(PortTable, RefusesRangesThatAreNone) {
    in_network_namespace([] {
        for (const PortRange range :
             {PortRange{0, 0}, PortRange{0, 100}, PortRange{100, 99}, PortRange{1, 0}}) {
            for (const bool is_shared : {false, true}) {
                const TableOptions options = {.range = range};
                const auto table = is_shared ? PortTable::create_shared(Protocol::udp, options)
                                             : PortTable::create(Protocol::udp, options);
                ASSERT_TRUE(failed_with(table, Errc::invalid_argument));
                EXPECT_THAT(table.error().message(), HasSubstr("range"));
                EXPECT_THAT(table.error().message(), HasSubstr("1 <= first <= last <= 65535"));
            }
        }
        EXPECT_TRUE(succeeded(PortTable::create(Protocol::udp, {.range = PortRange{1, 65535}})));
        EXPECT_TRUE(succeeded(PortTable::create(Protocol::udp, {.range = PortRange{7, 7}})));
    });
}

TEST(PortTable, RefusesTimesThatAreNone) {
    in_network_namespace([] {
        for (const milliseconds time : {milliseconds(-1), milliseconds(std::chrono::hours(25)),
                                        milliseconds::max(), milliseconds::min()}) {
            const auto rest = PortTable::create(Protocol::udp, {.rest_period = time});
            ASSERT_TRUE(failed_with(rest, Errc::invalid_argument));
            EXPECT_THAT(rest.error().message(), HasSubstr("rest_period"));
            const auto recheck = PortTable::create(Protocol::udp, {.recheck_interval = time});
            ASSERT_TRUE(failed_with(recheck, Errc::invalid_argument));
            EXPECT_THAT(recheck.error().message(), HasSubstr("recheck_interval"));
        }
    });
}

TEST(PortTable, TakesInTheFamiliesThatAreAskedFor) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        {
            const auto v4 = table.take(TakeFamily::ipv4);
            ASSERT_TRUE(succeeded(v4));
            EXPECT_FALSE(table.take(TakeFamily::both));
            EXPECT_TRUE(succeeded(table.take(TakeFamily::ipv6)));
        }
        const auto both = table.take();
        ASSERT_TRUE(succeeded(both));
        EXPECT_TRUE(failed_with(table.take(TakeFamily::ipv4), Errc::ports_exhausted));
        EXPECT_TRUE(failed_with(table.take(TakeFamily::ipv6), Errc::ports_exhausted));
    });
}

TEST(PortTable, MayBeMovedWhilePortsAreHeld) {
    in_network_namespace({.range = kSmall}, [] {
        std::optional<PortTable> table = new_table(Protocol::udp, kNoRest);
        auto port = table->take();
        ASSERT_TRUE(succeeded(port));
        PortTable moved = std::move(*table);
        table.reset();
        EXPECT_EQ(moved.statistics().free_count, 15U);
        port->release();
        EXPECT_EQ(moved.statistics().free_count, 16U);
    });
}

TEST(Port, IsGivenBackOnceWhateverIsDoneWithIt) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        Port empty;
        EXPECT_FALSE(empty);
        EXPECT_EQ(empty.number(), 0);
        empty.release();
        Port first = table.take().value();
        Port second = std::move(first);
        first.release();  // NOLINT(bugprone-use-after-move): harmless is what is tested
        EXPECT_FALSE(first);
        EXPECT_EQ(table.statistics().free_count, 15U);
        second.release();
        second.release();
        EXPECT_FALSE(second);
        EXPECT_EQ(table.statistics().free_count, 16U);
    });
}

TEST(Port, AssignmentGivesTheOldPortBack) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        Port port = table.take().value();
        port = table.take().value();
        EXPECT_EQ(table.statistics().free_count, 15U);
        Port& same = port;
        port = std::move(same);
        EXPECT_TRUE(port);
        EXPECT_EQ(table.statistics().free_count, 15U);
        port = Port();
        EXPECT_EQ(table.statistics().free_count, 16U);
    });
}

TEST(Port, DetachedStaysTakenWhileTheProcessLives) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        std::uint16_t number = 0;
        {
            auto port = table.take();
            ASSERT_TRUE(succeeded(port));
            number = port->detach();
            EXPECT_FALSE(*port);
        }
        EXPECT_NE(number, 0);
        EXPECT_EQ(table.sweep(), 0U);
        EXPECT_EQ(table.statistics().free_count, 15U);
    });
}

TEST(Port, OutlivesItsSocket) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(succeeded(port));
        socket.close();
        EXPECT_EQ(table.statistics().free_count, 15U);
        port->release();
        EXPECT_EQ(table.statistics().free_count, 16U);
    });
}

// A child that is forked has copies of its parent's Ports, and lets them go when it exits.
TEST(Port, CopiesOfAForkedChildReleaseNothing) {
    in_network_namespace({.range = kSmall}, [] {
        for (const bool is_shared : {false, true}) {
            auto table = is_shared ? PortTable::create_shared(Protocol::tcp, kNoRest)
                                   : PortTable::create(Protocol::tcp, kNoRest);
            ASSERT_TRUE(succeeded(table));
            const Descriptor server = test::listener(test::address("127.0.0.1:20000"));
            auto taken = table->take();
            const Socket bound_socket = new_socket(Protocol::tcp, Family::ipv4);
            auto bound = table->bind(bound_socket, Address::any(Family::ipv4));
            const Socket connected_socket = new_socket(Protocol::tcp, Family::ipv4);
            auto connected = table->connect(connected_socket, test::address("127.0.0.1:20000"));
            ASSERT_TRUE(taken && bound && connected);
            const pid_t child = ::fork();
            if (child == 0) {
                taken->release();
                bound->release();
                connected->release();
                const bool has_own = table->take().has_value();
                ::_exit(has_own && table->statistics().free_count >= 14 ? 0 : 1);
            }
            int status = -1;
            ::waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
            EXPECT_EQ(table->statistics().free_count, 14U);
            EXPECT_EQ(table->sweep(), 0U);
        }
    });
}

TEST(PortTable, SweepTakesBackWhatADeadProcessHeld) {
    in_network_namespace({.range = kSmall}, [] {
        auto table = PortTable::create_shared(Protocol::udp, kNoRest);
        ASSERT_TRUE(succeeded(table));
        const pid_t child = ::fork();
        if (child == 0) {
            for (unsigned i = 0; i < 5; ++i) table->take()->detach();
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        EXPECT_EQ(table->statistics().free_count, 11U);
        EXPECT_GE(table->sweep(), 5U);
        EXPECT_EQ(table->statistics().free_count, 16U);
        EXPECT_GE(table->statistics().reclaimed_count, 5U);
    });
}

}  // namespace
}  // namespace berth
