// SPDX-License-Identifier: Apache-2.0
// ENOPROTOOPT means two things: of setsockopt() that the kernel knows no such option, of connect()
// that the destination answered "protocol unreachable".
#include <berth/ports.h>

#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

namespace berth {
namespace {

using test::address;
using test::Call;
using test::failed_with;
using test::FaultPlan;
using test::in_network_namespace;
using test::listener;
using test::new_socket;
using test::new_table;
using test::succeeded;

const TableOptions kNoRest = {.rest_period = std::chrono::milliseconds(0)};

TEST(ProtocolUnreachable, IsUnreachableAndPortsAreStillSharedBetweenDestinations) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        const Address remotes[] = {address("127.0.0.1:20000"), address("127.0.0.2:20000")};
        const Descriptor servers[] = {listener(remotes[0]), listener(remotes[1])};
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Socket first = new_socket(Protocol::tcp, Family::ipv4);
        {
            FaultPlan faults;
            faults.fail(Call::connect, ENOPROTOOPT, 1);
            EXPECT_TRUE(failed_with(table.connect(first, remotes[0]), Errc::unreachable));
            EXPECT_EQ(faults.call_count(Call::bind), 0U) << "as for an old kernel";
        }
        const auto port = table.connect(first, remotes[0]);
        ASSERT_TRUE(succeeded(port));
        const Socket second = new_socket(Protocol::tcp, Family::ipv4);
        const auto shared = table.connect(second, remotes[1]);
        ASSERT_TRUE(succeeded(shared)) << "one port serves both";
        EXPECT_EQ(shared->number(), port->number());
    });
}

TEST(ProtocolUnreachable, OfUdpIsUnreachableToo) {
    in_network_namespace({.range = {40000, 40001}}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        FaultPlan faults;
        faults.fail(Call::connect, ENOPROTOOPT, 1);
        EXPECT_TRUE(
            failed_with(table.connect(socket, address("127.0.0.1:20000")), Errc::unreachable));
    });
}

}  // namespace
}  // namespace berth
