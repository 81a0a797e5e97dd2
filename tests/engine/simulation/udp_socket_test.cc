// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>
#include <netinet/udp.h>

#include <algorithm>
#include <set>
#include <vector>

namespace berth::internal {
namespace {

using namespace test;

// A message of one part, with room for control messages.
struct OnePart {
    explicit OnePart(std::string given) : text(std::move(given)) {
        part = {text.data(), text.size()};
        header.msg_name = &from;
        header.msg_namelen = sizeof(from);
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control.data();
        header.msg_controllen = control.size();
    }
    OnePart(const OnePart&) = delete;
    OnePart& operator=(const OnePart&) = delete;

    std::string text;
    iovec part{};
    sockaddr_in from{};
    alignas(8) std::array<std::byte, 64> control{};
    msghdr header{};
};

int gro_size(const OnePart& message) {
    cmsghdr header{};
    int size = -1;
    if (message.header.msg_controllen >= sizeof(header) + sizeof(size)) {
        std::memcpy(&header, message.control.data(), sizeof(header));
        std::memcpy(&size, message.control.data() + sizeof(header), sizeof(size));
        EXPECT_EQ(header.cmsg_level, SOL_UDP);
        EXPECT_EQ(header.cmsg_type, UDP_GRO);
    }
    return size;
}

TEST(SimulatedUdp, DatagramsOfAllSizesComeWhole) {
    Simulation simulation({.latency = 2ms});
    const int sender = bound_udp();
    const int receiver = bound_udp();
    for (const std::size_t size : {0U, 1U, 1'000U, 65'507U}) {
        EXPECT_EQ(send_text_to(sender, std::string(size, 'd'), local_name(receiver)),
                  static_cast<ssize_t>(size));
        EXPECT_EQ(poll_for(receiver, POLLIN, 1s), POLLIN);
        OnePart message(std::string(70'000, '.'));
        EXPECT_EQ(calls().recvmsg(receiver, &message.header, 0), static_cast<ssize_t>(size));
        const auto* from = reinterpret_cast<const sockaddr*>(&message.from);
        EXPECT_EQ(Address::from(from, message.header.msg_namelen).value(), local_name(sender));
    }
    EXPECT_FAILS(EMSGSIZE, send_text_to(sender, std::string(65'508, 'd'), local_name(receiver)));
    EXPECT_FAILS(EMSGSIZE, send_text_to(sender, std::string(70'000, 'd'), local_name(receiver)));
}

TEST(SimulatedUdp, WhatDoesNotFitIsCutAndSaysSo) {
    const Simulation simulation;
    const int receiver = bound_udp();
    const int sender = open_udp();
    send_text_to(sender, "0123456789", local_name(receiver));
    EXPECT_EQ(receive(receiver, 4, MSG_PEEK), "0123");
    OnePart message("....");
    EXPECT_EQ(calls().recvmsg(receiver, &message.header, MSG_TRUNC | MSG_PEEK), 10);
    EXPECT_EQ(message.header.msg_flags, MSG_TRUNC);
    EXPECT_EQ(calls().recvmsg(receiver, &message.header, 0), 4);
    EXPECT_EQ(message.text, "0123");
    EXPECT_EQ(receive(receiver), "EAGAIN");
}

TEST(SimulatedUdp, SendingWithoutADestinationOrPortIsRefused) {
    const Simulation simulation;
    const int fd = open_udp();
    EXPECT_FAILS(EDESTADDRREQ, send_text(fd, "x"));
    EXPECT_FAILS(EINVAL, send_text_to(fd, "x", at("127.0.0.1")));
    EXPECT_FAILS(ENETUNREACH, send_text_to(fd, "x", at("192.0.2.1:9")));
    EXPECT_FAILS(EAFNOSUPPORT, send_text_to(fd, "x", at("[::1]:9")));
    // The first attempt has bound it.
    EXPECT_NE(local_name(fd).port(), 0);
}

TEST(SimulatedUdp, AConnectedSocketHearsOfAnUnreachablePortWithItsNextCall) {
    Simulation simulation({.latency = 1ms});
    const int fd = open_udp();
    EXPECT_EQ(connect_to(fd, at("127.0.0.1:9")), 0);
    EXPECT_EQ(send_text(fd, "anybody?"), 8);
    simulation.advance(10ms);
    EXPECT_EQ(poll_now(fd), POLLOUT | POLLERR);
    EXPECT_EQ(receive(fd), "ECONNREFUSED");
    EXPECT_EQ(send_text(fd, "anybody?"), 8);
    simulation.advance(10ms);
    EXPECT_FAILS(ECONNREFUSED, send_text(fd, "x"));
    const int unconnected = open_udp();
    send_text_to(unconnected, "x", at("127.0.0.1:9"));
    simulation.advance(10ms);
    EXPECT_EQ(receive(unconnected), "EAGAIN");
}

TEST(SimulatedUdp, AConnectedSocketHearsItsPeerAlone) {
    const Simulation simulation;
    const int fd = bound_udp();
    const int peer = bound_udp();
    const int stranger = bound_udp();
    EXPECT_EQ(connect_to(fd, local_name(peer)), 0);
    send_text_to(stranger, "stranger", local_name(fd));
    send_text_to(peer, "peer", local_name(fd));
    EXPECT_EQ(receive(fd), "peer");
    EXPECT_EQ(receive(fd), "EAGAIN");
    EXPECT_EQ(peer_name(fd), local_name(peer));
    const sockaddr nowhere{AF_UNSPEC, {}};
    EXPECT_EQ(calls().connect(fd, &nowhere, sizeof(nowhere)), 0);
    EXPECT_FAILS(ENOTCONN, calls().shutdown(fd, SHUT_RD));
}

TEST(SimulatedUdp, AFullReceiveBufferDrops) {
    const Simulation simulation({.receive_buffer = 10'000});
    const int receiver = bound_udp();
    const int sender = open_udp();
    for (int number = 0; number < 20; ++number) {
        EXPECT_EQ(send_text_to(sender, std::string(1'000, 'x'), local_name(receiver)), 1'000);
    }
    int count = 0;
    while (receive(receiver) != "EAGAIN") ++count;
    EXPECT_EQ(count, 7);
}

TEST(SimulatedUdp, TheSendBufferIsWhatIsUnderWay) {
    Simulation simulation({.latency = 1ms, .send_buffer = 10'000});
    const int receiver = bound_udp();
    const int sender = open_udp();
    EXPECT_EQ(connect_to(sender, local_name(receiver)), 0);
    fill(sender);
    EXPECT_EQ(poll_now(sender), 0);
    EXPECT_EQ(poll_for(sender, POLLOUT, 1s), POLLOUT);
}

TEST(SimulatedUdp, LossDuplicationAndReorderingComeFromTheSeed) {
    const auto run = [](std::uint64_t seed) {
        Simulation simulation({.seed = seed,
                               .weather = {.loss = 0.2, .duplication = 0.2, .reordering = 0.2},
                               .latency = 1ms});
        const int receiver = bound_udp();
        const int sender = open_udp();
        for (int number = 0; number < 100; ++number) {
            send_text_to(sender, std::to_string(number), local_name(receiver));
            simulation.advance(100us);
        }
        simulation.advance(1s);
        std::vector<int> numbers;
        std::string text;
        while ((text = receive(receiver)) != "EAGAIN") numbers.push_back(std::stoi(text));
        return numbers;
    };
    const std::vector<int> numbers = run(5);
    const std::set<int> distinct(numbers.begin(), numbers.end());
    EXPECT_LT(distinct.size(), 95U);
    EXPECT_GT(distinct.size(), 60U);
    EXPECT_GT(numbers.size(), distinct.size());
    EXPECT_FALSE(std::ranges::is_sorted(numbers));
    EXPECT_EQ(run(5), numbers);
    EXPECT_NE(run(6), numbers);
}

TEST(SimulatedUdp, ASegmentedSendArrivesAsSingleDatagrams) {
    const Simulation simulation;
    const int receiver = bound_udp();
    const int sender = open_udp();
    EXPECT_EQ(set_option(sender, SOL_UDP, UDP_SEGMENT, 4), 0);
    EXPECT_EQ(get_option(sender, SOL_UDP, UDP_SEGMENT), 4);
    EXPECT_EQ(send_text_to(sender, "aaaabbbbcc", local_name(receiver)), 10);
    EXPECT_EQ(receive(receiver), "aaaa");
    EXPECT_EQ(receive(receiver), "bbbb");
    EXPECT_EQ(receive(receiver), "cc");
    EXPECT_FAILS(EINVAL, send_text_to(sender, std::string(4 * 128 + 1, 'x'), local_name(receiver)));
    EXPECT_FAILS(EINVAL, set_option(sender, SOL_UDP, UDP_SEGMENT, 70'000));
}

TEST(SimulatedUdp, AReceiverWithGroGetsTheBundleAndItsSegmentSize) {
    const Simulation simulation;
    const int receiver = bound_udp();
    const int sender = open_udp();
    EXPECT_EQ(set_option(receiver, SOL_UDP, UDP_GRO, 1), 0);
    EXPECT_EQ(connect_to(sender, local_name(receiver)), 0);
    OnePart bundle("aaaabbbbcc");
    bundle.header.msg_name = nullptr;
    bundle.header.msg_namelen = 0;
    const cmsghdr segment{
        .cmsg_len = sizeof(cmsghdr) + 2, .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT};
    const std::uint16_t size = 4;
    std::memcpy(bundle.control.data(), &segment, sizeof(segment));
    std::memcpy(bundle.control.data() + sizeof(segment), &size, sizeof(size));
    bundle.header.msg_controllen = 24;
    EXPECT_EQ(calls().sendmsg(sender, &bundle.header, 0), 10);
    OnePart received(std::string(100, '.'));
    EXPECT_EQ(calls().recvmsg(receiver, &received.header, 0), 10);
    EXPECT_EQ(gro_size(received), 4);
    EXPECT_EQ(send_text(sender, "single"), 6);
    OnePart single(std::string(100, '.'));
    EXPECT_EQ(calls().recvmsg(receiver, &single.header, 0), 6);
    EXPECT_EQ(single.header.msg_controllen, 0U);
}

TEST(SimulatedUdp, ManyMessagesInOneCall) {
    Simulation simulation;
    const int receiver = bound_udp();
    const int sender = open_udp();
    EXPECT_EQ(connect_to(sender, local_name(receiver)), 0);
    std::array<OnePart, 3> out = {OnePart("one"), OnePart("two"), OnePart("three")};
    std::array<mmsghdr, 3> messages{};
    for (std::size_t index = 0; index < out.size(); ++index) {
        messages[index].msg_hdr.msg_iov = &out[index].part;
        messages[index].msg_hdr.msg_iovlen = 1;
    }
    EXPECT_EQ(calls().sendmmsg(sender, messages.data(), 3, 0), 3);
    EXPECT_EQ(messages[2].msg_len, 5U);
    std::array<OnePart, 4> in = {OnePart("....."), OnePart("....."), OnePart("....."),
                                 OnePart(".....")};
    std::array<mmsghdr, 4> received{};
    for (std::size_t index = 0; index < in.size(); ++index) {
        received[index].msg_hdr = in[index].header;
    }
    EXPECT_EQ(calls().recvmmsg(receiver, received.data(), 4, MSG_WAITFORONE, nullptr), 3);
    EXPECT_EQ(in[1].text, "two..");
    EXPECT_EQ(received[2].msg_len, 5U);
    EXPECT_FAILS(EAGAIN, calls().recvmmsg(receiver, received.data(), 4, 0, nullptr));
    EXPECT_EQ(simulation.counts().of(CallKind::recvmmsg), 2U);
}

TEST(SimulatedUdp, SocketsThatShareAPortShareItsPeers) {
    const Simulation simulation;
    const int first = open_udp();
    const int second = open_udp();
    set_option(first, SOL_SOCKET, SO_REUSEPORT, 1);
    set_option(second, SOL_SOCKET, SO_REUSEPORT, 1);
    EXPECT_EQ(bind_to(first, at("127.0.0.1")), 0);
    EXPECT_EQ(bind_to(second, local_name(first)), 0);
    for (int number = 0; number < 40; ++number) {
        const int sender = bound_udp();
        send_text_to(sender, "x", local_name(first));
        send_text_to(sender, "x", local_name(first));
        // Both to the same one.
        const int receiver = poll_now(first) & POLLIN ? first : second;
        EXPECT_EQ(receive(receiver), "x");
        EXPECT_EQ(receive(receiver), "x");
    }
}

TEST(SimulatedUdp, AnIpv6SocketTalksIpv4ByMappedAddresses) {
    const Simulation simulation;
    const int six = open_udp(Family::ipv6);
    EXPECT_EQ(bind_to(six, at("[::]:0")), 0);
    const int four = bound_udp();
    send_text_to(four, "to six", at("127.0.0.1").with_port(local_name(six).port()));
    EXPECT_EQ(receive(six), "to six");
    EXPECT_EQ(
        send_text_to(six, "to four", at("::ffff:127.0.0.1").with_port(local_name(four).port())), 7);
    EXPECT_EQ(send_text_to(six, "plain", local_name(four)), 5);
    EXPECT_EQ(receive(four), "to four");
    EXPECT_EQ(receive(four), "plain");
}

TEST(SimulatedUdp, WhatIsShutIsShut) {
    const Simulation simulation;
    const int fd = open_udp();
    EXPECT_EQ(connect_to(fd, local_name(bound_udp())), 0);
    EXPECT_EQ(calls().shutdown(fd, SHUT_WR), 0);
    EXPECT_FAILS(EPIPE, send_text(fd, "x"));
    EXPECT_EQ(calls().shutdown(fd, SHUT_RD), 0);
    EXPECT_EQ(poll_now(fd), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}

TEST(SimulatedUdp, BlackHolesSwallowAndAbsentHostsSayNothing) {
    Simulation simulation({.default_route = Route::no_host});
    simulation.set_route(at("127.0.0.9"), Route::black_hole);
    const int fd = open_udp();
    EXPECT_EQ(connect_to(fd, at("127.0.0.9:5")), 0);
    EXPECT_EQ(send_text(fd, "x"), 1);
    EXPECT_EQ(connect_to(fd, at("192.0.2.1:5")), 0);
    EXPECT_EQ(send_text(fd, "x"), 1);
    simulation.advance(1s);
    EXPECT_EQ(error_of(fd), 0);
}

}  // namespace
}  // namespace berth::internal
