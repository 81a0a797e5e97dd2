// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>
#include <sys/un.h>

namespace berth::internal {
namespace {

using namespace test;

std::string abstract(const char* name) { return std::string(1, '\0') + name; }

struct UnixName {
    explicit UnixName(const std::string& name) {
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, name.data(), name.size());
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

    sockaddr_un address{};
    socklen_t size;
};

int open_unix(int type) { return calls().socket(AF_UNIX, type | SOCK_NONBLOCK, 0); }
int bind_to_name(int fd, const std::string& name) {
    const UnixName own(name);
    return calls().bind(fd, own.get(), own.size);
}
int connect_to_name(int fd, const std::string& name) {
    const UnixName other(name);
    return calls().connect(fd, other.get(), other.size);
}
ssize_t send_to_name(int fd, std::string_view text, const std::string& name) {
    const UnixName other(name);
    return calls().sendto(fd, text.data(), text.size(), 0, other.get(), other.size);
}
int unix_listener(const std::string& name, int backlog, int type = SOCK_STREAM) {
    const int fd = open_unix(type);
    EXPECT_EQ(bind_to_name(fd, name), 0);
    EXPECT_EQ(calls().listen(fd, backlog), 0);
    return fd;
}

TEST(SimulatedUnix, StreamsConnectByPathAtOnce) {
    Simulation simulation;
    const int server = unix_listener("/run/service", 4);
    const int client = open_unix(SOCK_STREAM);
    EXPECT_EQ(connect_to_name(client, "/run/service"), 0);
    EXPECT_FAILS(EISCONN, connect_to_name(client, "/run/service"));
    EXPECT_EQ(send_text(client, "before it is accepted"), 21);
    const int accepted = accept_from(server);
    EXPECT_EQ(receive(accepted), "before it is accepted");
    close_all({server, client, accepted});
    EXPECT_EQ(simulation.open_descriptor_count(), 0U);
}

TEST(SimulatedUnix, APathOutlivesItsSocketUntilItIsUnlinked) {
    Simulation simulation;
    close_all({unix_listener("/run/old", 4)});
    const int fd = open_unix(SOCK_STREAM);
    EXPECT_FAILS(EADDRINUSE, bind_to_name(fd, "/run/old"));
    EXPECT_FAILS(ECONNREFUSED, connect_to_name(fd, "/run/old"));
    EXPECT_FAILS(ENOENT, connect_to_name(fd, "/run/never"));
    EXPECT_EQ(simulation.unlink("/run/old"), 0);
    EXPECT_FAILS(ENOENT, simulation.unlink("/run/old"));
    EXPECT_EQ(bind_to_name(fd, "/run/old"), 0);
    EXPECT_FAILS(EINVAL, bind_to_name(fd, "/run/other"));
}

TEST(SimulatedUnix, AnAbstractNameGoesWithItsSocket) {
    const Simulation simulation;
    const int first = unix_listener(abstract("name"), 4);
    const int second = open_unix(SOCK_STREAM);
    EXPECT_FAILS(EADDRINUSE, bind_to_name(second, abstract("name")));
    close_all({first});
    EXPECT_FAILS(ECONNREFUSED, connect_to_name(second, abstract("name")));
    EXPECT_EQ(bind_to_name(second, abstract("name")), 0);
    // The kernel makes a name for who gives none.
    const int third = open_unix(SOCK_STREAM);
    EXPECT_EQ(bind_to_name(third, ""), 0);
    sockaddr_un name{};
    socklen_t size = sizeof(name);
    EXPECT_EQ(calls().getsockname(third, reinterpret_cast<sockaddr*>(&name), &size), 0);
    EXPECT_EQ(size, 8U);
    EXPECT_FAILS(EINVAL, calls().bind(first, reinterpret_cast<sockaddr*>(&name), 1));
}

TEST(SimulatedUnix, AFullBacklogSaysTryAgain) {
    const Simulation simulation;
    const int server = unix_listener(abstract("s"), 0);
    EXPECT_EQ(connect_to_name(open_unix(SOCK_STREAM), abstract("s")), 0);
    const int second = open_unix(SOCK_STREAM);
    EXPECT_FAILS(EAGAIN, connect_to_name(second, abstract("s")));
    EXPECT_GE(accept_from(server), 0);
    EXPECT_EQ(connect_to_name(second, abstract("s")), 0);
}

TEST(SimulatedUnix, AnotherTypeOfSocketIsNoPeer) {
    const Simulation simulation;
    unix_listener("/s", 1, SOCK_SEQPACKET);
    EXPECT_FAILS(EPROTOTYPE, connect_to_name(open_unix(SOCK_STREAM), "/s"));
    EXPECT_FAILS(EPROTOTYPE, connect_to_name(open_unix(SOCK_DGRAM), "/s"));
}

TEST(SimulatedUnix, StreamsHaveNoBoundsAndPacketsDo) {
    Simulation simulation;
    const auto stream = simulation.make_socket_pair(SOCK_STREAM);
    send_text(stream[0], "one");
    send_text(stream[0], "two");
    EXPECT_EQ(receive(stream[1], 4, MSG_PEEK), "onet");
    EXPECT_EQ(receive(stream[1]), "onetwo");
    for (const int type : {SOCK_SEQPACKET, SOCK_DGRAM}) {
        const auto packets = simulation.make_socket_pair(type);
        send_text(packets[0], "one");
        send_text(packets[0], "");
        send_text(packets[0], "two");
        EXPECT_EQ(receive(packets[1], 2), "on");
        EXPECT_EQ(receive(packets[1]), "");
        EXPECT_EQ(receive(packets[1]), "two");
        EXPECT_EQ(receive(packets[1]), "EAGAIN");
    }
}

TEST(SimulatedUnix, ASendBufferCountsWhatThePeerHasNotRead) {
    Simulation simulation({.send_buffer = 20'000});
    const auto pair = simulation.make_socket_pair(SOCK_STREAM);
    EXPECT_GT(fill(pair[0]), 10'000U);
    EXPECT_EQ(poll_now(pair[0]), 0);
    receive_all(pair[1]);
    EXPECT_EQ(poll_now(pair[0]), POLLOUT);
    EXPECT_EQ(simulation.buffered_size(), 0U);
}

TEST(SimulatedUnix, DatagramsGoByNameAndTellTheirs) {
    const Simulation simulation;
    const int receiver = open_unix(SOCK_DGRAM);
    const int sender = open_unix(SOCK_DGRAM);
    EXPECT_EQ(bind_to_name(receiver, "/r"), 0);
    EXPECT_EQ(bind_to_name(sender, abstract("s")), 0);
    EXPECT_EQ(send_to_name(sender, "hello", "/r"), 5);
    sockaddr_un from{};
    std::string text(9, '.');
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_EQ(calls().recvmsg(receiver, &message, 0), 5);
    EXPECT_EQ(message.msg_namelen, 4U);
    EXPECT_EQ(from.sun_path[1], 's');
    EXPECT_FAILS(ENOTCONN, send_text(sender, "to whom?"));
    EXPECT_FAILS(ENOENT, send_to_name(sender, "x", "/nobody"));
}

TEST(SimulatedUnix, ADatagramReceiverThatDoesNotReadMakesTheSenderWait) {
    Simulation simulation;
    const int receiver = open_unix(SOCK_DGRAM);
    const int sender = open_unix(SOCK_DGRAM);
    EXPECT_EQ(bind_to_name(receiver, "/r"), 0);
    EXPECT_EQ(connect_to_name(sender, "/r"), 0);
    int count = 0;
    while (send_text(sender, "x") == 1) ++count;
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(count, 11);
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, sender, EPOLLOUT | EPOLLET), 0);
    EXPECT_EQ(next_event(epoll), 0U);
    EXPECT_EQ(receive(receiver), "x");
    EXPECT_EQ(next_event(epoll), EPOLLOUT);
}

TEST(SimulatedUnix, AClosedPeerIsNoticed) {
    Simulation simulation;
    const auto stream = simulation.make_socket_pair(SOCK_STREAM);
    send_text(stream[1], "unread");
    close_all({stream[1]});
    EXPECT_EQ(poll_now(stream[0]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
    EXPECT_EQ(receive(stream[0]), "unread");
    EXPECT_EQ(receive(stream[0]), "");
    EXPECT_FAILS(EPIPE, send_text(stream[0], "x"));
    const auto reset = simulation.make_socket_pair(SOCK_STREAM);
    send_text(reset[0], "never read");
    close_all({reset[1]});
    EXPECT_EQ(receive(reset[0]), "ECONNRESET");
    const auto datagrams = simulation.make_socket_pair(SOCK_DGRAM);
    close_all({datagrams[1]});
    EXPECT_FAILS(ECONNREFUSED, send_text(datagrams[0], "x"));
    EXPECT_FAILS(ENOTCONN, send_text(datagrams[0], "x"));
}

TEST(SimulatedUnix, ShuttingOneSideShutsTheOthersOther) {
    Simulation simulation;
    const auto pair = simulation.make_socket_pair(SOCK_STREAM);
    EXPECT_EQ(calls().shutdown(pair[0], SHUT_WR), 0);
    EXPECT_EQ(receive(pair[1]), "");
    EXPECT_EQ(send_text(pair[1], "still"), 5);
    EXPECT_EQ(receive(pair[0]), "still");
    EXPECT_EQ(calls().shutdown(pair[0], SHUT_RD), 0);
    EXPECT_FAILS(EPIPE, send_text(pair[1], "no more"));
    EXPECT_FAILS(EINVAL, calls().shutdown(pair[0], 3));
}

TEST(SimulatedUnix, OptionsOfOtherLevelsAreNotSupported) {
    Simulation simulation;
    const auto pair = simulation.make_socket_pair(SOCK_STREAM);
    EXPECT_FAILS(EOPNOTSUPP, set_option(pair[0], IPPROTO_TCP, TCP_NODELAY, 1));
    EXPECT_EQ(get_option(pair[0], SOL_SOCKET, SO_DOMAIN), AF_UNIX);
    EXPECT_EQ(get_option(pair[0], SOL_SOCKET, SO_TYPE), SOCK_STREAM);
}

}  // namespace
}  // namespace berth::internal
