// SPDX-License-Identifier: Apache-2.0
// What bind() does when the kernel says no.
#include <berth/ports.h>

#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace berth {
namespace {

using std::chrono::milliseconds;
using test::Call;
using test::failed_with;
using test::FaultPlan;
using test::in_network_namespace;
using test::kProtocols;
using test::new_socket;
using test::new_table;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};
const TableOptions kImpatient = {.rest_period = milliseconds(0),
                                 .recheck_interval = milliseconds(0)};

std::size_t count_binds(PortTable& table) {
    std::vector<std::pair<Socket, Port>> held;
    while (true) {
        Socket socket = new_socket(table.protocol(), Family::ipv4);
        auto port = table.bind(socket, Address::any(Family::ipv4));
        if (!port) return held.size();
        held.emplace_back(std::move(socket), std::move(*port));
    }
}

TEST(BindFaults, FewRefusalsCostOnlyAnotherPort) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kImpatient);
            {
                FaultPlan faults;
                faults.fail(Call::bind, EADDRINUSE, 3);
                const Socket socket = new_socket(protocol, Family::ipv4);
                EXPECT_TRUE(succeeded(table.bind(socket, Address::any(Family::ipv4))));
                EXPECT_EQ(faults.call_count(Call::bind), 4U);
            }
            EXPECT_EQ(table.statistics().refused_count, 3U);
            EXPECT_EQ(table.statistics().free_count, 13U);
            ASSERT_TRUE(succeeded(table.reconcile()));
            EXPECT_EQ(table.statistics().free_count, 16U);
        }
    });
}

TEST(BindFaults, EndlessRefusalsAreAnAnswerAfterABoundedNumberOfTries) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp, kImpatient);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        {
            FaultPlan faults;
            faults.fail(Call::bind, EADDRINUSE);
            EXPECT_TRUE(
                failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
            EXPECT_LT(faults.call_count(Call::bind), 60U);
        }
        ASSERT_TRUE(succeeded(table.reconcile()));
        EXPECT_EQ(table.statistics().free_count, 1024U);
        EXPECT_TRUE(succeeded(table.bind(socket, Address::any(Family::ipv4))));
    });
}

TEST(BindFaults, OtherErrorsGiveThePortBackAtOnceAndNameTheAddress) {
    in_network_namespace({.range = kSmall}, [] {
        const std::pair<int, Errc> failures[] = {{EADDRNOTAVAIL, Errc::address_not_available},
                                                 {EACCES, Errc::permission_denied},
                                                 {EPERM, Errc::permission_denied},
                                                 {ENOBUFS, Errc::out_of_memory},
                                                 {ENOMEM, Errc::out_of_memory},
                                                 {EINVAL, Errc::invalid_argument},
                                                 {EIO, Errc::system}};
        PortTable table = new_table(Protocol::udp, {.rest_period = std::chrono::hours(1)});
        for (const auto& [error, code] : failures) {
            FaultPlan faults;
            faults.fail(Call::bind, error);
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            for (unsigned i = 0; i < 20; ++i) {
                const auto port = table.bind(socket, Address::any(Family::ipv4));
                ASSERT_TRUE(failed_with(port, code)) << std::strerror(error);
                EXPECT_THAT(port.error().message(), HasSubstr("bind udp 0.0.0.0"));
            }
            EXPECT_EQ(table.statistics().free_count, kSmall.size()) << std::strerror(error);
        }
        EXPECT_EQ(count_binds(table), kSmall.size());
    });
}

TEST(BindFaults, InterruptionIsRepeatedWithTheSamePort) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kImpatient);
        FaultPlan faults;
        faults.fail(Call::bind, EINTR, 5);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(faults.call_count(Call::bind), 6U);
        EXPECT_EQ(table.statistics().free_count, 15U);
    });
}

TEST(BindFaults, ExplicitPortIsGivenBackAfterAnError) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kImpatient);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        {
            FaultPlan faults;
            faults.fail(Call::bind, EACCES);
            EXPECT_TRUE(failed_with(table.bind(socket, Address::any(Family::ipv4, 40003)),
                                    Errc::permission_denied));
        }
        EXPECT_EQ(table.statistics().free_count, kSmall.size());
        EXPECT_TRUE(succeeded(table.bind(socket, Address::any(Family::ipv4, 40003))));
    });
}

TEST(BindFaults, OptionThatCannotBeClearedStopsBeforeAPortIsTaken) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kImpatient);
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(succeeded(socket.set_reuse_address(true)));
        ASSERT_TRUE(succeeded(socket.set_reuse_port(true)));
        {
            FaultPlan faults;
            faults.fail_if(Call::setsockopt, EPERM, [](const test::CallDetails& call) {
                return call.option == SO_REUSEPORT;
            });
            const auto port = table.bind(socket, Address::any(Family::ipv4));
            ASSERT_TRUE(failed_with(port, Errc::permission_denied));
            EXPECT_THAT(port.error().message(), HasSubstr("SO_REUSEPORT"));
        }
        EXPECT_NE(test::option_of(socket.fd(), SOL_SOCKET, SO_REUSEADDR), 0);
        EXPECT_NE(test::option_of(socket.fd(), SOL_SOCKET, SO_REUSEPORT), 0);
        EXPECT_EQ(table.statistics().free_count, kSmall.size());
    });
}

TEST(BindFaults, OptionsOfAForeignDescriptorThatCannotBeReadAreAnError) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kImpatient);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        FaultPlan faults;
        faults.fail(Call::getsockopt, ENOBUFS);
        EXPECT_FALSE(table.bind(socket.fd(), Address::any(Family::ipv4)));
        EXPECT_EQ(table.statistics().free_count, kSmall.size());
    });
}

// The last step asks the kernel with a second socket, which cannot be made.
TEST(BindFaults, NoDescriptorForTheLastStepIsExhausted) {
    in_network_namespace({.range = kSmall}, [] {
        const auto theirs = test::strangers(Protocol::udp, Address::any(Family::ipv4), kSmall);
        PortTable table = new_table(Protocol::udp, kImpatient);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        FaultPlan faults;
        faults.fail(Call::socket, EMFILE, FaultPlan::kAlways, test::Target::any);
        EXPECT_TRUE(
            failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
        EXPECT_EQ(table.statistics().free_count, 0U);
    });
}

// Sharing asks with a second socket whether the port is new to everybody.
TEST(BindFaults, NoDescriptorForTheQuestionOfSharingGivesNoUsedPort) {
    in_network_namespace({.range = kSmall}, [] {
        Socket theirs = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(succeeded(theirs.set_reuse_port(true)));
        const Address taken = Address::any(Family::ipv4, 40000);
        ASSERT_EQ(::bind(theirs.fd(), taken.data(), taken.size()), 0);
        for (unsigned i = 0; i < 32; ++i) {
            PortTable table = new_table(Protocol::udp, {.reconcile_at_start = false});
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            FaultPlan faults;
            faults.fail(Call::socket, EMFILE, FaultPlan::kAlways, test::Target::any);
            const auto port =
                table.bind(socket, Address::any(Family::ipv4), {.sharing = Sharing::reuse_port});
            EXPECT_TRUE(!port || port->number() != 40000);
        }
    });
}

}  // namespace
}  // namespace berth
