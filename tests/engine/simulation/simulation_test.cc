// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <fcntl.h>

namespace berth::internal {
namespace {

using namespace test;

TEST(Simulation, IsActiveWhileItLives) {
    EXPECT_EQ(Simulation::active(), nullptr);
    {
        const Simulation simulation;
        EXPECT_EQ(Simulation::active(), &simulation);
    }
    EXPECT_EQ(Simulation::active(), nullptr);
    EXPECT_EQ(&calls(), &kernel_calls());
}

TEST(SimulationDeathTest, ThereIsOneAtATime) {
    const Simulation simulation;
    EXPECT_DEATH(Simulation another, "broken invariant");
}

TEST(Simulation, DescriptorsAreTheLowestFreeNumbersFromTwoToTheTwentieth) {
    Simulation simulation;
    const int first = open_tcp();
    EXPECT_EQ(first, 1 << 20);
    const int second = simulation.make_epoll();
    const int third = simulation.make_wakeup();
    EXPECT_EQ(third, first + 2);
    close_all({first, second});
    EXPECT_EQ(open_udp(), first);
    EXPECT_EQ(open_udp(), second);
    EXPECT_EQ(open_udp(), third + 1);
}

TEST(Simulation, OtherDescriptorsAreTheRealKernels) {
    const Simulation simulation;
    const int real = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(real, 0);
    std::array<char, 4> text{'a', 'b', 'c', 'd'};
    const iovec part{text.data(), text.size()};
    EXPECT_EQ(calls().preadv2(real, &part, 1, -1, 0), 4);
    EXPECT_EQ(text[0], '\0');
    EXPECT_EQ(calls().close(real), 0);
    EXPECT_FAILS(EBADF, calls().close(real));
    EXPECT_FAILS(EBADF, calls().close(1 << 20));
    const int netlink = calls().socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    EXPECT_GE(netlink, 0);
    EXPECT_LT(netlink, 1 << 20);
    EXPECT_EQ(calls().close(netlink), 0);
}

TEST(Simulation, FilesOfTheRealKernelCanBeSent) {
    const Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int real = ::open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(real, 0);
    off_t offset = 0;
    const ssize_t size = calls().sendfile(pair.client, real, &offset, 100);
    EXPECT_GT(size, 0);
    EXPECT_EQ(offset, size);
    EXPECT_EQ(receive(pair.server).size(), static_cast<std::size_t>(size));
    EXPECT_EQ(calls().close(real), 0);
}

TEST(Simulation, HelpersFailWhenNoDescriptorIsLeft) {
    Simulation simulation({.descriptor_limit = 1});
    EXPECT_EQ(simulation.make_pipe(), (std::array{-1, -1}));
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(simulation.make_socket_pair(SOCK_STREAM), (std::array{-1, -1}));
    EXPECT_EQ(simulation.open_descriptor_count(), 0U);
    EXPECT_GE(simulation.make_epoll(), 0);
    EXPECT_FAILS(EMFILE, simulation.make_wakeup());
    EXPECT_FAILS(EMFILE, simulation.make_file("x"));
}

TEST(Simulation, CountsItsCalls) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    simulation.reset_counts();
    send_text(pair.client, "x");
    receive(pair.server);
    receive(pair.server);
    EXPECT_EQ(simulation.counts().of(CallKind::send), 1U);
    EXPECT_EQ(simulation.counts().of(CallKind::recv), 2U);
    EXPECT_EQ(simulation.counts().of(CallKind::epoll_ctl), 0U);
    EXPECT_EQ(simulation.counts().total(), 3U);
}

TEST(Simulation, ListsWhatIsOpen) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    send_text(pair.client, "xyz");
    const std::string list = simulation.open_descriptors();
    EXPECT_NE(list.find(std::to_string(pair.listener) + ": tcp 127.0.0.1:"), std::string::npos);
    EXPECT_NE(list.find("established, 3 bytes unread"), std::string::npos) << list;
    EXPECT_EQ(simulation.buffered_size(), 3U);
}

TEST(Simulation, IoctlKnowsWhatLoopsAskFor) {
    Simulation simulation;
    const int fd = open_tcp();
    int value = 1;
    EXPECT_EQ(calls().ioctl(fd, FIONBIO, &value), 0);
    EXPECT_FAILS(ENOTTY, calls().ioctl(fd, 12'345, &value));
    EXPECT_FAILS(EINVAL, calls().ioctl(listener(), FIONREAD, &value));
    const auto [reader, writer] = simulation.make_pipe();
    const iovec part{&value, sizeof(value)};
    calls().pwritev2(writer, &part, 1, -1, 0);
    EXPECT_EQ(calls().ioctl(reader, FIONREAD, &value), 0);
    EXPECT_EQ(value, 4);
}

TEST(Simulation, EndsWithEverythingStillOpen) {
    auto simulation = std::make_unique<Simulation>(SimulationOptions{.latency = 1ms});
    const TcpPair pair = tcp_pair();
    const int outer = simulation->make_epoll();
    const int inner = simulation->make_epoll();
    watch(outer, inner, EPOLLIN);
    watch(inner, pair.client, EPOLLIN | EPOLLET);
    send_text(pair.client, "under way");
    connect_to(open_tcp(), local_name(pair.listener));
    const auto packets = simulation->make_socket_pair(SOCK_DGRAM);
    send_text(packets[0], "to and");
    send_text(packets[1], "fro");
    const int udp = bound_udp();
    send_text_to(udp, "to itself", local_name(udp));
    simulation.reset();
}

}  // namespace
}  // namespace berth::internal
