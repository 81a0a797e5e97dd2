// SPDX-License-Identifier: Apache-2.0
// Which binds and connects find a port.
#include "src/engine/simulation/simulation.h"

#include "src/base/kernel_constants.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

#include <set>

namespace berth::internal {
namespace {

using namespace test;

int open_of(Protocol protocol, Family family = Family::ipv4) {
    return protocol == Protocol::tcp ? open_tcp(family) : open_udp(family);
}

int bound(Protocol protocol, const Address& address) {
    const int fd = open_of(protocol, address.family());
    EXPECT_EQ(bind_to(fd, address), 0) << address.to_string() << std::strerror(errno);
    return fd;
}

class SimulatedBind : public testing::TestWithParam<Protocol> {};

INSTANTIATE_TEST_SUITE_P(Protocols, SimulatedBind, testing::Values(Protocol::tcp, Protocol::udp),
                         [](const auto& suite) { return std::string(to_string(suite.param)); });

TEST_P(SimulatedBind, AddressesThatOverlapCannotShareAPort) {
    const Simulation simulation({.local_addresses = {at("192.0.2.1"), at("2001:db8::1")}});
    const int first = bound(GetParam(), at("192.0.2.1"));
    const std::uint16_t port = local_name(first).port();
    const auto try_bind = [port](const char* host) {
        const Address address = at(host).with_port(port);
        const int fd = open_of(GetParam(), address.family());
        const int result = bind_to(fd, address) == 0 ? 0 : errno;
        calls().close(fd);
        return result;
    };
    EXPECT_EQ(try_bind("192.0.2.1"), EADDRINUSE);
    EXPECT_EQ(try_bind("0.0.0.0"), EADDRINUSE);
    EXPECT_EQ(try_bind("::"), EADDRINUSE);
    EXPECT_EQ(try_bind("::ffff:192.0.2.1"), EADDRINUSE);
    EXPECT_EQ(try_bind("127.0.0.1"), 0);
    EXPECT_EQ(try_bind("::1"), 0);
    EXPECT_EQ(try_bind("2001:db8::1"), 0);
    close_all({first});
    EXPECT_EQ(try_bind("0.0.0.0"), 0);
}

TEST_P(SimulatedBind, ADualStackWildcardTakesThePortInBothFamilies) {
    const Simulation simulation;
    const int both = bound(GetParam(), at("[::]:0"));
    const std::uint16_t port = local_name(both).port();
    EXPECT_FAILS(EADDRINUSE, bind_to(open_of(GetParam()), at("127.0.0.1").with_port(port)));
    EXPECT_FAILS(EADDRINUSE, bind_to(open_of(GetParam(), Family::ipv6), at("::1").with_port(port)));
    close_all({both});
    const int only_v6 = open_of(GetParam(), Family::ipv6);
    EXPECT_EQ(set_option(only_v6, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0);
    EXPECT_EQ(bind_to(only_v6, at("::").with_port(port)), 0);
    EXPECT_FAILS(EINVAL, set_option(only_v6, IPPROTO_IPV6, IPV6_V6ONLY, 0));
    EXPECT_EQ(bind_to(open_of(GetParam()), at("127.0.0.1").with_port(port)), 0);
}

TEST_P(SimulatedBind, OnlyOwnAddressesAndOnlyOnce) {
    const Simulation simulation;
    const int fd = open_of(GetParam());
    EXPECT_FAILS(EADDRNOTAVAIL, bind_to(fd, at("192.0.2.1:5")));
    EXPECT_FAILS(EAFNOSUPPORT, bind_to(fd, at("[::1]:5")));
    EXPECT_FAILS(EINVAL, calls().bind(fd, at("127.0.0.1").data(), 4));
    EXPECT_EQ(bind_to(fd, at("127.3.2.1")), 0);
    EXPECT_FAILS(EINVAL, bind_to(fd, at("127.3.2.1")));
    const int only_v6 = open_of(GetParam(), Family::ipv6);
    set_option(only_v6, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    EXPECT_FAILS(EINVAL, bind_to(only_v6, at("::ffff:127.0.0.1")));
}

TEST_P(SimulatedBind, ChoosesFromTheRangeUntilItIsUsedUp) {
    const Simulation simulation({.port_range = {40'000, 40'009}});
    std::set<std::uint16_t> ports;
    for (int number = 0; number < 10; ++number) {
        ports.insert(local_name(bound(GetParam(), at("127.0.0.1"))).port());
    }
    EXPECT_EQ(ports.size(), 10U);
    EXPECT_EQ(*ports.begin(), 40'000);
    EXPECT_EQ(*ports.rbegin(), 40'009);
    EXPECT_FAILS(EADDRINUSE, bind_to(open_of(GetParam()), at("127.0.0.1")));
    EXPECT_EQ(bind_to(open_of(GetParam()), at("127.0.0.2")), 0);
}

TEST_P(SimulatedBind, TheSeedDecidesThePorts) {
    const auto port_of = [](std::uint64_t seed) {
        const Simulation simulation({.seed = seed});
        return local_name(bound(GetParam(), at("127.0.0.1"))).port();
    };
    EXPECT_EQ(port_of(1), port_of(1));
    EXPECT_NE(port_of(1), port_of(2));
}

TEST_P(SimulatedBind, ASocketCanHaveARangeOfItsOwn) {
    const Simulation simulation;
    const int fd = open_of(GetParam());
    EXPECT_EQ(set_option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, 33'000 << 16 | 33'000), 0);
    EXPECT_EQ(bind_to(fd, at("127.0.0.1")), 0);
    EXPECT_EQ(local_name(fd).port(), 33'000);
    EXPECT_FAILS(EINVAL, set_option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, 5 << 16 | 6));
    // Bounds outside the namespace's range do not count.
    const int other = open_of(GetParam());
    EXPECT_EQ(set_option(other, IPPROTO_IP, IP_LOCAL_PORT_RANGE, 100 << 16 | 100), 0);
    EXPECT_EQ(bind_to(other, at("127.0.0.1")), 0);
    EXPECT_GE(local_name(other).port(), 32'768);
}

TEST(SimulatedTcpPorts, SharingByReuseAddressEndsWithTheFirstListener) {
    const Simulation simulation;
    const int first = open_tcp();
    const int second = open_tcp();
    set_option(first, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(second, SOL_SOCKET, SO_REUSEADDR, 1);
    EXPECT_EQ(bind_to(first, at("127.0.0.1")), 0);
    EXPECT_EQ(bind_to(second, local_name(first)), 0);
    EXPECT_EQ(calls().listen(first, 1), 0);
    EXPECT_FAILS(EADDRINUSE, calls().listen(second, 1));
}

TEST(SimulatedTcpPorts, OnePortServesManyDestinations) {
    const Simulation simulation({.port_range = {40'000, 40'000}});
    const int first = listener(4, at("127.0.0.1:5000"));
    const int second = listener(4, at("127.0.0.1:5001"));
    const int one = open_tcp();
    EXPECT_FAILS(EINPROGRESS, connect_to(one, local_name(first)));
    const int two = open_tcp();
    EXPECT_FAILS(EINPROGRESS, connect_to(two, local_name(second)));
    EXPECT_EQ(local_name(one).port(), 40'000);
    EXPECT_EQ(local_name(two).port(), 40'000);
    EXPECT_FAILS(EADDRNOTAVAIL, connect_to(open_tcp(), local_name(first)));
    // A connection holds its port against binds, and a bound port is none for connects.
    EXPECT_FAILS(EADDRINUSE, bind_to(open_tcp(), at("127.0.0.1")));
    close_all({one, two});
    EXPECT_EQ(bind_to(open_tcp(), at("127.0.0.7")), 0);
    EXPECT_FAILS(EADDRNOTAVAIL, connect_to(open_tcp(), local_name(first)));
}

TEST(SimulatedTcpPorts, BindingWithoutAPortLeavesTheChoiceToConnect) {
    const Simulation simulation;
    const int server = listener();
    const int fd = open_tcp();
    EXPECT_EQ(set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1), 0);
    EXPECT_EQ(bind_to(fd, at("127.0.0.5")), 0);
    EXPECT_EQ(local_name(fd), at("127.0.0.5"));
    EXPECT_FAILS(EINPROGRESS, connect_to(fd, local_name(server)));
    EXPECT_EQ(local_name(fd).with_port(0), at("127.0.0.5"));
    EXPECT_NE(local_name(fd).port(), 0);
}

TEST(SimulatedTcpPorts, AClosedConnectionKeepsItsPortInTimeWait) {
    Simulation simulation({.port_range = {40'000, 40'000}, .time_wait = 60s});
    const int server = listener(4, at("127.0.0.1:5000"));
    const int client = open_tcp();
    connect_to(client, local_name(server));
    const int accepted = accept_from(server);
    close_all({client, accepted});
    EXPECT_FAILS(EADDRNOTAVAIL, connect_to(open_tcp(), local_name(server)));
    EXPECT_FAILS(EADDRINUSE, bind_to(open_tcp(), at("127.0.0.1:40000")));
    simulation.advance(61s);
    EXPECT_FAILS(EINPROGRESS, connect_to(open_tcp(), local_name(server)));
}

TEST(SimulatedTcpPorts, AFailedConnectGivesItsPortBackUnlessItWasNamed) {
    const Simulation simulation({.port_range = {40'000, 40'000}});
    const int chosen = open_tcp();
    connect_to(chosen, at("127.0.0.1:9"));
    EXPECT_EQ(local_name(chosen).port(), 40'000);
    EXPECT_EQ(bind_to(open_tcp(), at("127.0.0.1")), 0);
    const int named = open_tcp();
    EXPECT_EQ(bind_to(named, at("127.0.0.1:5000")), 0);
    connect_to(named, at("127.0.0.1:9"));
    EXPECT_FAILS(EADDRINUSE, bind_to(open_tcp(), at("127.0.0.1:5000")));
}

TEST(SimulatedUdpPorts, AutomaticPortsMayBeSharedByReuse) {
    const Simulation simulation({.port_range = {40'000, 40'000}});
    for (int number = 0; number < 3; ++number) {
        const int fd = open_udp();
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        EXPECT_EQ(bind_to(fd, at("127.0.0.1")), 0);
    }
    EXPECT_FAILS(EAGAIN, send_text_to(open_udp(), "x", at("127.0.0.1:9")));
}

}  // namespace
}  // namespace berth::internal
