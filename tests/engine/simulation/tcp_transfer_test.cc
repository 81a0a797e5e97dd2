// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

namespace berth::internal {
namespace {

using namespace test;

TEST(SimulatedTcpData, ArrivesAfterTheLatencyInOrder) {
    Simulation simulation({.latency = 4ms});
    const TcpPair pair = tcp_pair();
    const auto start = simulation.now();
    EXPECT_EQ(send_text(pair.client, "one "), 4);
    EXPECT_EQ(send_text(pair.client, "two"), 3);
    EXPECT_EQ(receive(pair.server), "EAGAIN");
    EXPECT_EQ(poll_for(pair.server, POLLIN, 1s), POLLIN);
    EXPECT_EQ(simulation.now(), start + 4ms);
    EXPECT_EQ(receive(pair.server, 5), "one t");
    EXPECT_EQ(receive(pair.server), "wo");
}

TEST(SimulatedTcpData, FillsThePeersWindowThenTheOwnBuffer) {
    const Simulation simulation({.send_buffer = 20'000, .receive_buffer = 60'000});
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(fill(pair.client), 40'000U);
    EXPECT_EQ(poll_now(pair.client), 0);
    int size = 0;
    EXPECT_EQ(calls().ioctl(pair.server, FIONREAD, &size), 0);
    EXPECT_EQ(size, 30'000);
    EXPECT_EQ(calls().ioctl(pair.client, SIOCOUTQ, &size), 0);
    EXPECT_EQ(size, 10'000);
}

TEST(SimulatedTcpData, APartialWriteTakesWhatFits) {
    const Simulation simulation({.send_buffer = 20'000, .receive_buffer = 20'000});
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(send_text(pair.client, std::string(15'000, 'a')), 10'000);
    EXPECT_EQ(send_text(pair.client, std::string(15'000, 'b')), 10'000);
    EXPECT_FAILS(EAGAIN, send_text(pair.client, "c"));
    EXPECT_EQ(send_text(pair.client, ""), 0);
}

TEST(SimulatedTcpData, IsWritableAgainWhenAThirdOfTheBufferIsFree) {
    const Simulation simulation({.send_buffer = 24'000, .receive_buffer = 4'000});
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(fill(pair.client), 14'000U);
    EXPECT_EQ(receive(pair.server).size(), 2'000U);
    // 10,000 of 12,000 are held.
    EXPECT_EQ(poll_now(pair.client) & POLLOUT, 0);
    EXPECT_EQ(receive(pair.server).size(), 2'000U);
    EXPECT_EQ(poll_now(pair.client) & POLLOUT, POLLOUT);
}

TEST(SimulatedTcpData, ASlowReaderGetsEverything) {
    Simulation simulation(
        {.latency = 1ms, .segment_size = 1'000, .send_buffer = 8'000, .receive_buffer = 6'000});
    const TcpPair pair = tcp_pair();
    std::string sent;
    std::string received;
    while (received.size() < 100'000) {
        const std::string block(777, static_cast<char>('a' + sent.size() % 26));
        const ssize_t count = sent.size() < 100'000 ? send_text(pair.client, block) : 0;
        sent += block.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        simulation.advance(300us);
        const std::string part = receive(pair.server, 501);
        received += part == "EAGAIN" ? "" : part;
    }
    EXPECT_EQ(received, sent);
    EXPECT_EQ(simulation.buffered_size(), 0U);
}

TEST(SimulatedTcpData, BufferSizesAreTwiceWhatWasAskedFor) {
    const Simulation simulation({.max_asked_buffer = 50'000});
    const int fd = open_tcp();
    EXPECT_EQ(set_option(fd, SOL_SOCKET, SO_SNDBUF, 9'000), 0);
    EXPECT_EQ(get_option(fd, SOL_SOCKET, SO_SNDBUF), 18'000);
    EXPECT_EQ(set_option(fd, SOL_SOCKET, SO_SNDBUF, 1), 0);
    EXPECT_EQ(get_option(fd, SOL_SOCKET, SO_SNDBUF), 4'608);
    EXPECT_EQ(set_option(fd, SOL_SOCKET, SO_RCVBUF, 1), 0);
    EXPECT_EQ(get_option(fd, SOL_SOCKET, SO_RCVBUF), 2'304);
    EXPECT_EQ(set_option(fd, SOL_SOCKET, SO_RCVBUF, 1'000'000), 0);
    EXPECT_EQ(get_option(fd, SOL_SOCKET, SO_RCVBUF), 100'000);
    EXPECT_EQ(set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, 1'000'000), 0);
    EXPECT_EQ(get_option(fd, SOL_SOCKET, SO_RCVBUF), 2'000'000);
}

TEST(SimulatedTcpData, PeekingLeavesItAndTruncatingThrowsItAway) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    send_text(pair.client, "abcdef");
    EXPECT_EQ(receive(pair.server, 3, MSG_PEEK), "abc");
    std::string untouched = "...";
    EXPECT_EQ(calls().recv(pair.server, untouched.data(), 3, MSG_TRUNC), 3);
    EXPECT_EQ(untouched, "...");
    EXPECT_EQ(receive(pair.server, 10, MSG_WAITALL), "def");
}

TEST(SimulatedTcpData, AHalfClosedConnectionGoesOnTheOtherWay) {
    Simulation simulation({.latency = 1ms});
    const TcpPair pair = tcp_pair();
    send_text(pair.client, "request");
    EXPECT_EQ(calls().shutdown(pair.client, SHUT_WR), 0);
    EXPECT_FAILS(EPIPE, send_text(pair.client, "more"));
    EXPECT_EQ(poll_for(pair.server, POLLIN, 1s), POLLIN);
    simulation.advance(10ms);
    EXPECT_EQ(poll_now(pair.server), POLLIN | POLLOUT | POLLRDHUP);
    EXPECT_EQ(receive(pair.server), "request");
    EXPECT_EQ(receive(pair.server), "");
    EXPECT_EQ(send_text(pair.server, "answer"), 6);
    EXPECT_EQ(poll_for(pair.client, POLLIN, 1s), POLLIN);
    EXPECT_EQ(receive(pair.client), "answer");
    EXPECT_EQ(receive(pair.client), "EAGAIN");
    close_all({pair.server});
    EXPECT_EQ(poll_for(pair.client, POLLIN, 1s) & POLLIN, POLLIN);
    EXPECT_EQ(receive(pair.client), "");
    EXPECT_EQ(poll_now(pair.client), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}

TEST(SimulatedTcpData, AClosedSocketStillDeliversWhatItHadTaken) {
    Simulation simulation({.latency = 1ms, .send_buffer = 40'000, .receive_buffer = 4'000});
    const TcpPair pair = tcp_pair();
    const std::string text(15'000, 'z');
    EXPECT_EQ(send_text(pair.client, text), 15'000);
    close_all({pair.client});
    std::string received;
    while (received.size() < text.size()) {
        ASSERT_EQ(poll_for(pair.server, POLLIN, 1s) & POLLIN, POLLIN);
        received += receive(pair.server);
    }
    EXPECT_EQ(received, text);
    simulation.advance(10ms);
    EXPECT_EQ(receive(pair.server), "");
}

TEST(SimulatedTcpData, ClosingWithUnreadDataResetsThePeerWhichReadsOnFirst) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    send_text(pair.server, "unread by the client");
    send_text(pair.client, "read by the server");
    close_all({pair.client});
    EXPECT_EQ(poll_now(pair.server), POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR);
    EXPECT_EQ(receive(pair.server), "read by the server");
    EXPECT_EQ(receive(pair.server), "ECONNRESET");
    EXPECT_EQ(receive(pair.server), "");
    EXPECT_FAILS(EPIPE, send_text(pair.server, "x"));
}

TEST(SimulatedTcpData, WritingToAClosedPeerBreaksThePipeTheSecondTime) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    close_all({pair.client});
    EXPECT_EQ(send_text(pair.server, "nobody reads this"), 17);
    EXPECT_FAILS(EPIPE, send_text(pair.server, "x"));
    EXPECT_EQ(simulation.broken_pipe_count(), 0U);
    EXPECT_FAILS(EPIPE, send_text(pair.server, "x", 0));
    EXPECT_EQ(simulation.broken_pipe_count(), 1U);
}

TEST(SimulatedTcpData, LingerOfZeroResets) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(set_linger(pair.client, {1, 0}), 0);
    close_all({pair.client});
    EXPECT_EQ(error_of(pair.server), ECONNRESET);
    EXPECT_EQ(receive(pair.server), "");
}

TEST(SimulatedTcpData, SideShutForReadingStillTakesWhatComes) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(calls().shutdown(pair.server, SHUT_RD), 0);
    EXPECT_EQ(receive(pair.server), "");
    send_text(pair.client, "late");
    EXPECT_EQ(receive(pair.server), "late");
    EXPECT_EQ(receive(pair.server), "");
}

TEST(SimulatedTcpData, AnOrphanIsForgottenAndThenResets) {
    Simulation simulation({.orphan_timeout = 60s});
    const TcpPair pair = tcp_pair();
    close_all({pair.client});
    simulation.advance(61s);
    EXPECT_EQ(send_text(pair.server, "x"), 1);
    EXPECT_EQ(error_of(pair.server), EPIPE);
}

TEST(SimulatedTcpData, TheMemoryOfAllSocketsIsLimited) {
    Simulation simulation(
        {.send_buffer = 100'000, .receive_buffer = 4'000, .memory_limit = 10'000});
    const TcpPair pair = tcp_pair();
    EXPECT_EQ(send_text(pair.client, std::string(9'000, 'a')), 9'000);
    EXPECT_FAILS(ENOBUFS, send_text(pair.client, std::string(9'000, 'a')));
    EXPECT_EQ(simulation.buffered_size(), 9'000U);
    EXPECT_EQ(receive_all(pair.server).size(), 9'000U);
    EXPECT_EQ(send_text(pair.client, std::string(9'000, 'a')), 9'000);
}

TEST(SimulatedTcpData, BrokenConnectionsTellBothSides) {
    Simulation simulation({.latency = 1ms});
    const TcpPair pair = tcp_pair();
    simulation.break_connection(pair.client, ETIMEDOUT);
    EXPECT_EQ(receive(pair.client), "ETIMEDOUT");
    EXPECT_EQ(receive(pair.server), "EAGAIN");
    EXPECT_NE(poll_for(pair.server, POLLIN, 1s) & POLLERR, 0);
    EXPECT_EQ(receive(pair.server), "ECONNRESET");
}

TEST(SimulatedTcpData, MessagesGatherAndScatter) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    std::string first = "ab";
    std::string second = "cde";
    std::array<iovec, 2> parts = {{{first.data(), 2}, {second.data(), 3}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    EXPECT_EQ(calls().sendmsg(pair.client, &message, MSG_NOSIGNAL), 5);
    std::string left(3, '.');
    std::string right(3, '.');
    parts = {{{left.data(), 3}, {right.data(), 3}}};
    EXPECT_EQ(calls().recvmsg(pair.server, &message, 0), 5);
    EXPECT_EQ(left + right, "abcde.");
    EXPECT_EQ(message.msg_flags, 0);
    message.msg_iovlen = 1'025;
    EXPECT_FAILS(EMSGSIZE, calls().recvmsg(pair.server, &message, 0));
}

TEST(SimulatedTcpData, SocketsAreReadAndWrittenLikeFilesToo) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    std::string text = "through iovecs";
    iovec part{text.data(), text.size()};
    EXPECT_EQ(calls().pwritev2(pair.client, &part, 1, -1, 0), 14);
    EXPECT_FAILS(ESPIPE, calls().pwritev2(pair.client, &part, 1, 0, 0));
    std::string back(14, '.');
    part = {back.data(), back.size()};
    EXPECT_FAILS(ESPIPE, calls().preadv2(pair.server, &part, 1, 5, 0));
    EXPECT_FAILS(EINVAL, calls().preadv2(pair.server, &part, 1, -2, 0));
    EXPECT_FAILS(EOPNOTSUPP, calls().preadv2(pair.server, &part, 1, -1, 1 << 20));
    EXPECT_EQ(calls().preadv2(pair.server, &part, 1, -1, 0), 14);
    EXPECT_EQ(back, text);
}

}  // namespace
}  // namespace berth::internal
