// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/socket_options.h"

#include "src/engine/simulation/simulation.h"

#include <berth/socket.h>

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

namespace berth::internal {
namespace {

using namespace test;

TEST(SimulatedOptions, SocketsKnowWhatTheyAre) {
    const Simulation simulation;
    const int tcp = open_tcp();
    EXPECT_EQ(get_option(tcp, SOL_SOCKET, SO_DOMAIN), AF_INET);
    EXPECT_EQ(get_option(tcp, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    EXPECT_EQ(get_option(tcp, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    EXPECT_EQ(get_option(tcp, SOL_SOCKET, SO_ACCEPTCONN), 0);
    EXPECT_EQ(get_option(listener(), SOL_SOCKET, SO_ACCEPTCONN), 1);
    EXPECT_EQ(get_option(open_udp(Family::ipv6), SOL_SOCKET, SO_DOMAIN), AF_INET6);
    EXPECT_FAILS(ENOPROTOOPT, set_option(tcp, SOL_SOCKET, SO_DOMAIN, 1));
}

TEST(SimulatedOptions, RememberedOptionsComeBack) {
    const Simulation simulation;
    const int tcp = open_tcp();
    EXPECT_EQ(get_option(tcp, IPPROTO_TCP, TCP_NODELAY), 0);
    EXPECT_EQ(set_option(tcp, IPPROTO_TCP, TCP_NODELAY, 7), 0);
    EXPECT_EQ(get_option(tcp, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(set_option(tcp, IPPROTO_TCP, TCP_KEEPIDLE, 30), 0);
    EXPECT_EQ(get_option(tcp, IPPROTO_TCP, TCP_KEEPIDLE), 30);
    EXPECT_EQ(set_option(tcp, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
    EXPECT_EQ(get_option(tcp, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(get_option(tcp, IPPROTO_TCP, TCP_MAXSEG), 65'483);
}

TEST(SimulatedOptions, UnknownOnesAndThoseOfOtherProtocolsAreRefused) {
    const Simulation simulation;
    int value = 0;
    socklen_t size = sizeof(value);
    const int udp = open_udp();
    EXPECT_FAILS(ENOPROTOOPT, calls().getsockopt(udp, SOL_SOCKET, 9'999, &value, &size));
    EXPECT_FAILS(ENOPROTOOPT, calls().getsockopt(udp, IPPROTO_TCP, TCP_NODELAY, &value, &size));
    EXPECT_FAILS(ENOPROTOOPT, set_option(udp, IPPROTO_IPV6, IPV6_V6ONLY, 1));
    EXPECT_FAILS(EINVAL, calls().setsockopt(udp, SOL_SOCKET, SO_REUSEADDR, &value, 2));
    size = static_cast<socklen_t>(-1);
    EXPECT_FAILS(EINVAL, calls().getsockopt(udp, SOL_SOCKET, SO_TYPE, &value, &size));
    size = 1;
    EXPECT_EQ(calls().getsockopt(udp, SOL_SOCKET, SO_TYPE, &value, &size), 0);
    EXPECT_EQ(size, 1U);
}

TEST(SimulatedOptions, StructuresComeWhole) {
    const Simulation simulation;
    const int tcp = open_tcp();
    EXPECT_EQ(set_linger(tcp, {1, 30}), 0);
    linger value{};
    socklen_t size = sizeof(value);
    EXPECT_EQ(calls().getsockopt(tcp, SOL_SOCKET, SO_LINGER, &value, &size), 0);
    EXPECT_EQ(value.l_linger, 30);
    std::uint64_t cookie = 0;
    size = sizeof(cookie);
    EXPECT_EQ(calls().getsockopt(tcp, SOL_SOCKET, SO_COOKIE, &cookie, &size), 0);
    EXPECT_NE(cookie, 0U);
    std::array<char, 16> name{};
    size = name.size();
    EXPECT_EQ(calls().getsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
    EXPECT_STREQ(name.data(), "cubic");
    size = name.size();
    EXPECT_EQ(calls().getsockopt(tcp, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &size), 0);
    EXPECT_EQ(size, 0U);
}

TEST(SimulatedOptions, AnAcceptedSocketHasThoseOfItsListener) {
    const Simulation simulation;
    const int server = listener();
    set_option(server, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(server, SOL_SOCKET, SO_SNDBUF, 7'000);
    set_option(server, IPPROTO_TCP, TCP_NODELAY, 1);
    const int client = open_tcp();
    connect_to(client, local_name(server));
    const int accepted = accept_from(server);
    EXPECT_EQ(get_option(accepted, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(get_option(accepted, SOL_SOCKET, SO_SNDBUF), 14'000);
    EXPECT_EQ(get_option(accepted, IPPROTO_TCP, TCP_NODELAY), 1);
}

TEST(SimulatedOptions, BerthsOwnSocketsWorkOnThem) {
    const Simulation simulation;
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp}) {
        for (const Family family : {Family::ipv4, Family::ipv6}) {
            Result<Socket> socket = Socket::open(protocol, family);
            ASSERT_TRUE(socket) << socket.error().message();
            EXPECT_TRUE(socket->set_reuse_address(true));
            EXPECT_TRUE(socket->set_reuse_port(true));
            EXPECT_TRUE(socket->set_bind_address_no_port(true));
            EXPECT_TRUE(socket->set_local_port_range({40'000, 40'010}));
            if (family == Family::ipv6) {
                EXPECT_TRUE(socket->set_v6_only(true));
            }
            EXPECT_TRUE(socket->reload_options());
            EXPECT_TRUE(socket->options().reuse_address);
            EXPECT_TRUE(socket->options().reuse_port);
            EXPECT_TRUE(socket->options().bind_address_no_port);
            EXPECT_EQ(socket->options().local_port_range, (PortRange{40'000, 40'010}));
            EXPECT_EQ(socket->local_address().value(), Address::any(family));
            calls().close(socket->release().release());
        }
    }
    EXPECT_EQ(Simulation::active()->open_descriptor_count(), 0U);
}

TEST(SimulatedOptions, TheNamespaceMaySeparateTheFamilies) {
    const Simulation simulation({.bind_v6_only = true});
    EXPECT_EQ(get_option(open_tcp(Family::ipv6), IPPROTO_IPV6, IPV6_V6ONLY), 1);
}

}  // namespace
}  // namespace berth::internal
