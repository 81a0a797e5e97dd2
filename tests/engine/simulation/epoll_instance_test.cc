// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

#include <set>

namespace berth::internal {
namespace {

using namespace test;

constexpr std::uint32_t kEverything = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

TEST(SimulatedEpoll, LevelTriggeredReportsAsLongAsItIsSo) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.server, EPOLLIN), 0);
    EXPECT_EQ(next_event(epoll), 0U);
    send_text(pair.client, "x");
    EXPECT_EQ(next_event(epoll), EPOLLIN);
    EXPECT_EQ(next_event(epoll), EPOLLIN);
    receive(pair.server);
    EXPECT_EQ(next_event(epoll), 0U);
}

TEST(SimulatedEpoll, EdgeTriggeredReportsChangesAndEachArrivalIsOne) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.server, kEverything), 0);
    EXPECT_EQ(next_event(epoll), EPOLLOUT);
    EXPECT_EQ(next_event(epoll), 0U);
    send_text(pair.client, "one");
    EXPECT_EQ(next_event(epoll), EPOLLIN | EPOLLOUT);
    EXPECT_EQ(next_event(epoll), 0U);
    send_text(pair.client, "two");
    send_text(pair.client, "three");
    EXPECT_EQ(next_event(epoll), EPOLLIN | EPOLLOUT);
    EXPECT_EQ(next_event(epoll), 0U);
    EXPECT_EQ(receive(pair.server, 4), "onet");
    EXPECT_EQ(next_event(epoll), 0U);
    calls().shutdown(pair.client, SHUT_WR);
    EXPECT_EQ(next_event(epoll), EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

TEST(SimulatedEpoll, AnEdgeComesBackWhenThereIsRoomToWriteAgain) {
    Simulation simulation({.send_buffer = 24'000, .receive_buffer = 4'000});
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.client, kEverything), 0);
    EXPECT_EQ(next_event(epoll), EPOLLOUT);
    fill(pair.client);
    EXPECT_EQ(next_event(epoll), 0U);
    receive(pair.server, 2'000);
    EXPECT_EQ(next_event(epoll), 0U);
    receive_all(pair.server);
    EXPECT_EQ(next_event(epoll), EPOLLOUT);
    EXPECT_EQ(next_event(epoll), 0U);
}

TEST(SimulatedEpoll, OneShotIsOffUntilItIsChanged) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.server, EPOLLIN | EPOLLONESHOT), 0);
    send_text(pair.client, "x");
    EXPECT_EQ(next_event(epoll), EPOLLIN);
    send_text(pair.client, "y");
    EXPECT_EQ(next_event(epoll), 0U);
    close_all({pair.client});
    EXPECT_EQ(next_event(epoll), 0U);
    EXPECT_EQ(watch(epoll, pair.server, EPOLLIN | EPOLLONESHOT, EPOLL_CTL_MOD), 0);
    EXPECT_EQ(next_event(epoll), EPOLLIN);
}

TEST(SimulatedEpoll, ChangingAnEntryLooksAtItAnew) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.client, EPOLLIN | EPOLLET), 0);
    EXPECT_EQ(next_event(epoll), 0U);
    EXPECT_EQ(watch(epoll, pair.client, kEverything, EPOLL_CTL_MOD), 0);
    EXPECT_EQ(next_event(epoll), EPOLLOUT);
    EXPECT_EQ(watch(epoll, pair.client, kEverything, EPOLL_CTL_MOD), 0);
    EXPECT_EQ(next_event(epoll), EPOLLOUT);
}

TEST(SimulatedEpoll, ErrorsAndHangUpsComeUnasked) {
    Simulation simulation;
    const int fd = open_tcp();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, fd, EPOLLET), 0);
    EXPECT_EQ(next_event(epoll), EPOLLHUP);
    connect_to(fd, at("127.0.0.1:9"));
    EXPECT_EQ(next_event(epoll), EPOLLHUP | EPOLLERR);
}

TEST(SimulatedEpoll, AConnectIsAnEdge) {
    Simulation simulation({.latency = 1ms});
    const int server = listener();
    const int fd = open_tcp();
    const int epoll = simulation.make_epoll();
    connect_to(fd, local_name(server));
    EXPECT_EQ(watch(epoll, fd, kEverything), 0);
    EXPECT_EQ(watch(epoll, server, kEverything), 0);
    EXPECT_EQ(next_event(epoll), 0U);
    int which = -1;
    EXPECT_EQ(next_event(epoll, 1s, &which), EPOLLOUT);
    EXPECT_EQ(which, fd);
    EXPECT_EQ(next_event(epoll, 1s, &which), EPOLLIN);
    EXPECT_EQ(which, server);
}

TEST(SimulatedEpoll, AClosedDescriptorIsForgottenAndItsNumberIsNew) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.server, kEverything), 0);
    send_text(pair.client, "x");
    close_all({pair.server});
    EXPECT_EQ(next_event(epoll), 0U);
    const int reused = open_udp();
    EXPECT_EQ(reused, pair.server);
    EXPECT_FAILS(ENOENT, watch(epoll, reused, EPOLLIN, EPOLL_CTL_MOD));
    EXPECT_EQ(watch(epoll, reused, EPOLLIN), 0);
    EXPECT_FAILS(EEXIST, watch(epoll, reused, EPOLLIN));
    EXPECT_EQ(watch(epoll, reused, 0, EPOLL_CTL_DEL), 0);
    EXPECT_FAILS(ENOENT, watch(epoll, reused, 0, EPOLL_CTL_DEL));
}

TEST(SimulatedEpoll, RefusesWhatTheKernelRefuses) {
    Simulation simulation;
    const int epoll = simulation.make_epoll();
    epoll_event event{};
    EXPECT_FAILS(EPERM, watch(epoll, simulation.make_file(""), EPOLLIN));
    EXPECT_FAILS(EINVAL, watch(epoll, epoll, EPOLLIN));
    EXPECT_FAILS(EBADF, watch(epoll, epoll + 100, EPOLLIN));
    EXPECT_FAILS(EPERM, watch(epoll, 0, EPOLLIN));
    EXPECT_FAILS(EINVAL, watch(open_udp(), open_udp(), EPOLLIN));
    EXPECT_FAILS(EINVAL, calls().epoll_pwait2(epoll, &event, 0, nullptr, nullptr));
    EXPECT_FAILS(EINVAL, calls().epoll_pwait2(open_udp(), &event, 1, nullptr, nullptr));
    const timespec nonsense{0, 1'000'000'000};
    EXPECT_FAILS(EINVAL, calls().epoll_pwait2(epoll, &event, 1, &nonsense, nullptr));
}

TEST(SimulatedEpoll, ReadyOnesTakeTurnsWhenThereIsRoomForOneOnly) {
    Simulation simulation;
    const int epoll = simulation.make_epoll();
    std::set<int> sockets;
    for (int number = 0; number < 4; ++number) {
        const int fd = bound_udp();
        EXPECT_EQ(watch(epoll, fd, EPOLLOUT), 0);
        sockets.insert(fd);
    }
    for (int round = 0; round < 3; ++round) {
        std::set<int> seen;
        for (std::size_t number = 0; number < sockets.size(); ++number) {
            int fd = -1;
            EXPECT_EQ(next_event(epoll, 0ns, &fd), EPOLLOUT);
            seen.insert(fd);
        }
        EXPECT_EQ(seen, sockets);
    }
}

TEST(SimulatedEpoll, AnInstanceCanBeWatchedToo) {
    Simulation simulation;
    const int outer = simulation.make_epoll();
    const int inner = simulation.make_epoll();
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(watch(outer, inner, EPOLLIN | EPOLLET), 0);
    EXPECT_EQ(watch(inner, pair.server, EPOLLIN), 0);
    EXPECT_FAILS(ELOOP, watch(inner, outer, EPOLLIN));
    EXPECT_EQ(next_event(outer), 0U);
    send_text(pair.client, "x");
    EXPECT_EQ(next_event(outer), EPOLLIN);
    EXPECT_EQ(poll_now(inner), POLLIN);
    EXPECT_EQ(next_event(inner), EPOLLIN);
    EXPECT_EQ(receive(pair.server), "x");
    EXPECT_EQ(poll_now(inner), 0);
    close_all({inner});
    EXPECT_EQ(next_event(outer), 0U);
}

TEST(SimulatedEpoll, MillisecondsWorkLikeNanoseconds) {
    Simulation simulation;
    const int epoll = simulation.make_epoll();
    epoll_event event{};
    const auto start = simulation.now();
    EXPECT_EQ(calls().epoll_pwait(epoll, &event, 1, 25, nullptr), 0);
    EXPECT_EQ(simulation.now(), start + 25ms);
    EXPECT_EQ(calls().epoll_pwait(epoll, &event, 1, 0, nullptr), 0);
}

TEST(SimulatedEpoll, AWakeupThatIsNeverReadIsAnEdgeEachTime) {
    Simulation simulation;
    const int epoll = simulation.make_epoll();
    const int wakeup = simulation.make_wakeup();
    EXPECT_EQ(watch(epoll, wakeup, EPOLLIN | EPOLLET), 0);
    std::uint64_t one = 1;
    const iovec part{&one, sizeof(one)};
    for (int number = 0; number < 3; ++number) {
        EXPECT_EQ(next_event(epoll), 0U);
        EXPECT_EQ(calls().pwritev2(wakeup, &part, 1, -1, 0), 8);
        EXPECT_EQ(next_event(epoll), EPOLLIN);
    }
}

}  // namespace
}  // namespace berth::internal
