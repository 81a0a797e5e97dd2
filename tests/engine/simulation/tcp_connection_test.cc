// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

#include <vector>

namespace berth::internal {
namespace {

using namespace test;

TEST(SimulatedTcp, ConnectsWithinTwoLatencies) {
    Simulation simulation({.latency = 3ms});
    const int server = listener();
    const int client = open_tcp();
    const auto start = simulation.now();
    EXPECT_FAILS(EINPROGRESS, connect_to(client, local_name(server)));
    EXPECT_EQ(poll_now(client), 0);
    EXPECT_FAILS(EALREADY, connect_to(client, local_name(server)));
    EXPECT_EQ(poll_for(client, POLLOUT, 1s), POLLOUT);
    EXPECT_EQ(simulation.now(), start + 6ms);
    EXPECT_EQ(error_of(client), 0);
    EXPECT_EQ(connect_to(client, local_name(server)), 0);
    EXPECT_FAILS(EISCONN, connect_to(client, local_name(server)));
}

TEST(SimulatedTcp, AcceptsWithThePeersName) {
    Simulation simulation({.latency = 1ms});
    const int server = listener();
    const int client = open_tcp();
    connect_to(client, local_name(server));
    EXPECT_EQ(poll_for(server, POLLIN, 1s), POLLIN);
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    auto* generic = reinterpret_cast<sockaddr*>(&from);
    const int accepted = calls().accept4(server, generic, &size, 0);
    ASSERT_GE(accepted, 0);
    EXPECT_EQ(Address::from(generic, size).value(), local_name(client));
    EXPECT_EQ(peer_name(accepted), local_name(client));
    EXPECT_EQ(peer_name(client), local_name(server));
    EXPECT_EQ(local_name(accepted), local_name(server));
    EXPECT_FAILS(EAGAIN, accept_from(server));
    close_all({server, client, accepted});
    EXPECT_EQ(simulation.open_descriptor_count(), 0U);
}

TEST(SimulatedTcp, NobodyListeningRefusesByReset) {
    Simulation simulation({.latency = 1ms});
    const int client = open_tcp();
    EXPECT_FAILS(EINPROGRESS, connect_to(client, at("127.0.0.1:7")));
    EXPECT_EQ(poll_for(client, POLLOUT, 1s), POLLOUT | POLLERR | POLLHUP);
    EXPECT_EQ(error_of(client), ECONNREFUSED);
    EXPECT_EQ(error_of(client), 0);
    EXPECT_FAILS(ECONNABORTED, connect_to(client, at("127.0.0.1:7")));
}

TEST(SimulatedTcp, AnUnknownNetworkIsUnreachableAtOnce) {
    const Simulation simulation;
    const int client = open_tcp();
    EXPECT_FAILS(ENETUNREACH, connect_to(client, at("192.0.2.1:80")));
    EXPECT_FAILS(EAFNOSUPPORT, connect_to(client, at("[::1]:80")));
}

TEST(SimulatedTcp, AnAbsentHostIsUnreachableAfterTheWayThereAndBack) {
    Simulation simulation({.default_route = Route::no_host, .latency = 5ms});
    const int client = open_tcp();
    EXPECT_FAILS(EINPROGRESS, connect_to(client, at("192.0.2.1:80")));
    EXPECT_NE(poll_for(client, POLLOUT, 1s) & POLLERR, 0);
    EXPECT_EQ(error_of(client), EHOSTUNREACH);
}

TEST(SimulatedTcp, ABlackHoleTimesOutAfterVirtualMinutes) {
    Simulation simulation;
    simulation.set_route(at("127.0.0.9"), Route::black_hole);
    const int client = open_tcp();
    const auto start = simulation.now();
    EXPECT_FAILS(EINPROGRESS, connect_to(client, at("127.0.0.9:80")));
    EXPECT_NE(poll_for(client, POLLOUT, 1h) & POLLERR, 0);
    EXPECT_EQ(simulation.now(), start + 127s);
    EXPECT_EQ(error_of(client), ETIMEDOUT);
}

TEST(SimulatedTcp, AFullBacklogMakesConnectsWaitAndTryAgain) {
    Simulation simulation;
    const int server = listener(1);
    std::vector<int> clients;
    for (int number = 0; number < 3; ++number) {
        clients.push_back(open_tcp());
        connect_to(clients.back(), local_name(server));
    }
    // A backlog of n takes n + 1.
    EXPECT_EQ(poll_now(clients[1]) & POLLOUT, POLLOUT);
    EXPECT_EQ(poll_now(clients[2]), 0);
    EXPECT_GE(accept_from(server), 0);
    const auto start = simulation.now();
    EXPECT_EQ(poll_for(clients[2], POLLOUT, 10s), POLLOUT);
    EXPECT_EQ(simulation.now(), start + 1s);
}

TEST(SimulatedTcp, AFullBacklogThatStaysFullTimesOut) {
    Simulation simulation({.connect_timeout = 20s});
    const int server = listener(0);
    const int first = open_tcp();
    const int second = open_tcp();
    connect_to(first, local_name(server));
    connect_to(second, local_name(server));
    poll_for(second, POLLOUT, 1h);
    EXPECT_EQ(error_of(second), ETIMEDOUT);
    EXPECT_EQ(error_of(first), 0);
}

TEST(SimulatedTcp, AcceptWithoutADescriptorLeavesTheConnection) {
    Simulation simulation({.descriptor_limit = 3});
    const int server = listener();
    const int client = open_tcp();
    const int other = open_tcp();
    EXPECT_FAILS(EMFILE, open_tcp());
    connect_to(client, local_name(server));
    EXPECT_FAILS(EMFILE, accept_from(server));
    close_all({other});
    EXPECT_GE(accept_from(server), 0);
}

TEST(SimulatedTcp, ClosingAListenerResetsWhatNobodyHasAccepted) {
    Simulation simulation({.latency = 1ms});
    const int server = listener();
    const int client = open_tcp();
    connect_to(client, local_name(server));
    poll_for(client, POLLOUT, 1s);
    poll_for(server, POLLIN, 1s);
    close_all({server});
    EXPECT_EQ(poll_for(client, POLLIN, 1s), POLLIN | POLLERR | POLLHUP);
    EXPECT_EQ(receive(client), "ECONNRESET");
}

TEST(SimulatedTcp, AConnectionThatWasResetInTheBacklogIsStillAccepted) {
    const Simulation simulation;
    const int server = listener();
    const int client = open_tcp();
    connect_to(client, local_name(server));
    send_text(client, "last words");
    set_linger(client, {1, 0});
    close_all({client});
    const int accepted = accept_from(server);
    ASSERT_GE(accepted, 0);
    EXPECT_EQ(receive(accepted), "last words");
    EXPECT_EQ(receive(accepted), "ECONNRESET");
    EXPECT_EQ(receive(accepted), "");
}

TEST(SimulatedTcp, ClosingAConnectingSocketLeavesNothingBehind) {
    Simulation simulation({.latency = 1ms});
    const int server = listener();
    const int client = open_tcp();
    connect_to(client, local_name(server));
    close_all({client});
    simulation.advance(1min);
    EXPECT_FAILS(EAGAIN, accept_from(server));
}

TEST(SimulatedTcp, ASlowNetworkRepeatsTheFirstPacketWithoutHarm) {
    Simulation simulation({.latency = 2500ms});
    const int server = listener();
    const int client = open_tcp();
    connect_to(client, local_name(server));
    EXPECT_EQ(poll_for(client, POLLOUT, 1min), POLLOUT);
    simulation.advance(1min);
    EXPECT_GE(accept_from(server), 0);
    EXPECT_FAILS(EAGAIN, accept_from(server));
    EXPECT_EQ(poll_now(client), POLLOUT);
}

TEST(SimulatedTcp, AnIpv6ListenerTakesIpv4UnlessToldOtherwise) {
    const Simulation simulation;
    const int both = listener(16, at("[::]:0"));
    const int client = open_tcp();
    connect_to(client, at("127.0.0.1").with_port(local_name(both).port()));
    const int accepted = accept_from(both);
    ASSERT_GE(accepted, 0);
    EXPECT_TRUE(peer_name(accepted).is_v4_mapped());
    EXPECT_EQ(peer_name(accepted).unmapped(), local_name(client));

    const int only_v6 = open_tcp(Family::ipv6);
    EXPECT_EQ(set_option(only_v6, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0);
    EXPECT_EQ(bind_to(only_v6, at("[::]:0")), 0);
    EXPECT_EQ(calls().listen(only_v6, 4), 0);
    const int refused = open_tcp();
    connect_to(refused, at("127.0.0.1").with_port(local_name(only_v6).port()));
    EXPECT_EQ(error_of(refused), ECONNREFUSED);
    const int welcome = open_tcp(Family::ipv6);
    connect_to(welcome, at("::1").with_port(local_name(only_v6).port()));
    EXPECT_EQ(error_of(welcome), 0);
    EXPECT_GE(accept_from(only_v6), 0);
}

TEST(SimulatedTcp, IPv6CanBeSwitchedOff) {
    const Simulation simulation({.has_ipv6 = false});
    EXPECT_FAILS(EAFNOSUPPORT, open_tcp(Family::ipv6));
}

TEST(SimulatedTcp, ASocketMayConnectToItself) {
    const Simulation simulation;
    const int self = open_tcp();
    EXPECT_EQ(bind_to(self, at("127.0.0.1")), 0);
    connect_to(self, local_name(self));
    EXPECT_EQ(poll_now(self), POLLOUT);
    EXPECT_EQ(send_text(self, "echo"), 4);
    EXPECT_EQ(receive(self), "echo");
}

TEST(SimulatedTcp, TwoSocketsMayConnectToEachOtherAtOnce) {
    Simulation simulation({.latency = 1ms});
    const int first = open_tcp();
    const int second = open_tcp();
    EXPECT_EQ(bind_to(first, at("127.0.0.1")), 0);
    EXPECT_EQ(bind_to(second, at("127.0.0.1")), 0);
    connect_to(first, local_name(second));
    connect_to(second, local_name(first));
    EXPECT_EQ(poll_for(first, POLLOUT, 1s), POLLOUT);
    EXPECT_EQ(send_text(first, "hello"), 5);
    EXPECT_EQ(poll_for(second, POLLIN, 1s), POLLIN);
    EXPECT_EQ(receive(second), "hello");
}

TEST(SimulatedTcp, DisconnectingMakesTheSocketNew) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    const sockaddr nowhere{AF_UNSPEC, {}};
    EXPECT_EQ(calls().connect(pair.client, &nowhere, sizeof(nowhere)), 0);
    EXPECT_EQ(receive(pair.server), "ECONNRESET");
    EXPECT_EQ(error_of(pair.client), ECONNRESET);
    EXPECT_FAILS(EINPROGRESS, connect_to(pair.client, local_name(pair.listener)));
    EXPECT_GE(accept_from(pair.listener), 0);
}

TEST(SimulatedTcp, AnUnconnectedSocketHasNothingToGiveOrTake) {
    const Simulation simulation;
    const int fd = open_tcp();
    EXPECT_EQ(receive(fd), "ENOTCONN");
    EXPECT_FAILS(EPIPE, send_text(fd, "x"));
    EXPECT_FAILS(ENOTCONN, calls().shutdown(fd, SHUT_WR));
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    EXPECT_FAILS(ENOTCONN, calls().getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size));
    EXPECT_FAILS(EINVAL, accept_from(fd));
    EXPECT_EQ(poll_now(fd), POLLOUT | POLLHUP);
}

TEST(SimulatedTcp, CallsOnWhatIsNoSocketSaySo) {
    Simulation simulation;
    const int file = simulation.make_file("x");
    EXPECT_FAILS(ENOTSOCK, calls().listen(file, 1));
    EXPECT_FAILS(EBADF, calls().listen(file + 1, 1));
    EXPECT_FAILS(ENOTSOCK, accept_from(file));
    EXPECT_FAILS(EINVAL, calls().accept4(listener(), nullptr, nullptr, 1));
    EXPECT_FAILS(EOPNOTSUPP, calls().listen(open_udp(), 1));
    EXPECT_FAILS(EPROTONOSUPPORT, calls().socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    EXPECT_FAILS(ESOCKTNOSUPPORT, calls().socket(AF_INET, SOCK_SEQPACKET, 0));
}

}  // namespace
}  // namespace berth::internal
