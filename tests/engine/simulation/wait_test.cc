// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/wait.h"

#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace berth::internal {
namespace {

using namespace test;

// Sets of bits that are long enough for simulated descriptors.
struct BitSet {
    explicit BitSet(std::initializer_list<int> members) : words((1U << 20) / 64 + 4) {
        for (const int fd : members) words[index_of(fd)] |= bit_of(fd);
    }
    static std::size_t index_of(int fd) { return static_cast<std::size_t>(fd) / 64; }
    static unsigned long bit_of(int fd) { return 1UL << (static_cast<unsigned>(fd) % 64); }
    bool has(int fd) const { return (words[index_of(fd)] & bit_of(fd)) != 0; }
    fd_set* get() { return reinterpret_cast<fd_set*>(words.data()); }

    std::vector<unsigned long> words;
};

constexpr int kBitCount = (1 << 20) + 256;

TEST(SimulatedWait, JumpsToTheNextEventOfTheNetwork) {
    Simulation simulation({.latency = 7ms});
    const int receiver = bound_udp();
    send_text_to(open_udp(), "x", local_name(receiver));
    const auto start = simulation.now();
    EXPECT_EQ(poll_for(receiver, POLLIN, 1h), POLLIN);
    EXPECT_EQ(simulation.now(), start + 7ms);
}

TEST(SimulatedWait, JumpsToItsTimeoutWhenThatIsFirst) {
    Simulation simulation({.latency = 7ms});
    const int receiver = bound_udp();
    send_text_to(open_udp(), "x", local_name(receiver));
    const auto start = simulation.now();
    EXPECT_EQ(poll_for(receiver, POLLIN, 3ms), 0);
    EXPECT_EQ(simulation.now(), start + 3ms);
    EXPECT_EQ(poll_for(receiver, POLLIN, 4ms), POLLIN);
    EXPECT_EQ(simulation.now(), start + 7ms);
}

TEST(SimulatedWait, WithoutDescriptorsIsASleep) {
    Simulation simulation;
    const auto start = simulation.now();
    const timespec time = to_time(90s);
    EXPECT_EQ(calls().ppoll(nullptr, 0, &time, nullptr), 0);
    EXPECT_EQ(calls().pselect(0, nullptr, nullptr, nullptr, &time, nullptr), 0);
    EXPECT_EQ(simulation.now(), start + 180s);
}

TEST(SimulatedWait, PollKnowsClosedAndIgnoredDescriptors) {
    Simulation simulation;
    const int fd = open_udp();
    close_all({fd});
    std::array<pollfd, 2> entries = {{{fd, POLLIN, 77}, {-1, POLLIN, 77}}};
    const timespec time{};
    EXPECT_EQ(calls().ppoll(entries.data(), entries.size(), &time, nullptr), 1);
    EXPECT_EQ(entries[0].revents, POLLNVAL);
    EXPECT_EQ(entries[1].revents, 0);
    const timespec nonsense{-1, 0};
    EXPECT_FAILS(EINVAL, calls().ppoll(entries.data() + 1, 1, &nonsense, nullptr));
}

TEST(SimulatedWait, SelectFindsMembersBeyondTheCLibrarysLimit) {
    Simulation simulation({.latency = 1ms});
    const TcpPair pair = tcp_pair();
    send_text(pair.client, "x");
    BitSet read{pair.server, pair.client};
    BitSet write{pair.server};
    BitSet except{pair.server};
    EXPECT_EQ(calls().pselect(kBitCount, read.get(), write.get(), except.get(), nullptr, nullptr),
              1);
    EXPECT_TRUE(write.has(pair.server));
    EXPECT_FALSE(read.has(pair.server));
    EXPECT_FALSE(except.has(pair.server));
    read = BitSet{pair.server, pair.client};
    EXPECT_EQ(calls().pselect(kBitCount, read.get(), nullptr, nullptr, nullptr, nullptr), 1);
    EXPECT_TRUE(read.has(pair.server));
    EXPECT_FALSE(read.has(pair.client));
}

TEST(SimulatedWait, SelectEmptiesTheSetsAtItsTimeoutAndLeavesThemOnFailure) {
    Simulation simulation;
    const int fd = bound_udp();
    BitSet read{fd};
    const timespec time = to_time(1ms);
    EXPECT_EQ(calls().pselect(kBitCount, read.get(), nullptr, nullptr, &time, nullptr), 0);
    EXPECT_FALSE(read.has(fd));
    BitSet closed{fd + 1};
    EXPECT_FAILS(EBADF, calls().pselect(kBitCount, closed.get(), nullptr, nullptr, &time, nullptr));
    EXPECT_TRUE(closed.has(fd + 1));
    EXPECT_FAILS(EINVAL, calls().pselect(-1, nullptr, nullptr, nullptr, &time, nullptr));
}

TEST(SimulatedWait, RealDescriptorsAreLookedAtBesideSimulatedOnes) {
    Simulation simulation;
    std::array<int, 2> real{};
    ASSERT_EQ(::pipe2(real.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::write(real[1], "x", 1), 1);
    const int fd = bound_udp();
    std::array<pollfd, 2> entries = {{{fd, POLLIN, 0}, {real[0], POLLIN, 0}}};
    EXPECT_EQ(calls().ppoll(entries.data(), entries.size(), nullptr, nullptr), 1);
    EXPECT_EQ(entries[1].revents, POLLIN);
    BitSet read{fd, real[0]};
    EXPECT_EQ(calls().pselect(kBitCount, read.get(), nullptr, nullptr, nullptr, nullptr), 1);
    EXPECT_TRUE(read.has(real[0]));
    EXPECT_FALSE(read.has(fd));
    // Alone they are waited for in virtual time, too.
    EXPECT_EQ(poll_for(real[0], POLLIN, 1h), POLLIN);
    const auto start = simulation.now();
    EXPECT_EQ(poll_for(real[1], POLLIN, 1h), 0);
    EXPECT_EQ(simulation.now() - start, 1h);
    close_all({real[0], real[1]});
}

TEST(SimulatedWait, ADeadlockIsReportedWithWhatIsWaitedFor) {
    std::string report;
    Simulation simulation({.on_deadlock = [&report](const std::string& text) { report = text; }});
    const int server = listener();
    pollfd entry{server, POLLIN, 0};
    EXPECT_FAILS(EINTR, calls().ppoll(&entry, 1, nullptr, nullptr));
    EXPECT_NE(report.find(std::to_string(server) + ": tcp 127.0.0.1:"), std::string::npos)
        << report;
    EXPECT_NE(report.find("listening"), std::string::npos) << report;
    const int epoll = simulation.make_epoll();
    const auto [reader, writer] = simulation.make_pipe();
    EXPECT_EQ(watch(epoll, reader, EPOLLIN), 0);
    epoll_event event{};
    EXPECT_FAILS(EINTR, calls().epoll_pwait2(epoll, &event, 1, nullptr, nullptr));
    EXPECT_NE(report.find("pipe to read, 0 bytes"), std::string::npos) << report;
}

TEST(SimulatedWait, ADeadlockCanBeResolvedByItsCallback) {
    int client = -1;
    const Simulation simulation(
        {.on_deadlock = [&client](const std::string&) { send_text(client, "help"); }});
    const TcpPair pair = tcp_pair();
    client = pair.client;
    pollfd entry{pair.server, POLLIN, 0};
    EXPECT_EQ(calls().ppoll(&entry, 1, nullptr, nullptr), 1);
    EXPECT_EQ(receive(pair.server), "help");
}

TEST(SimulatedWait, HelpInADeadlockMayBeUnderWay) {
    int client = -1;
    Simulation simulation({.latency = 1ms, .on_deadlock = [&client](const std::string&) {
                               send_text(client, "help");
                           }});
    const TcpPair pair = tcp_pair();
    client = pair.client;
    pollfd entry{pair.server, POLLIN, 0};
    const auto start = simulation.now();
    EXPECT_EQ(calls().ppoll(&entry, 1, nullptr, nullptr), 1);
    EXPECT_EQ(simulation.now(), start + 1ms);
}

void wait_for_nothing() {
    const Simulation simulation;
    pollfd entry{bound_udp(), POLLIN, 0};
    calls().ppoll(&entry, 1, nullptr, nullptr);
}

void spin() {
    const Simulation simulation({.spin_limit = 1'000});
    const int fd = bound_udp();
    while (receive(fd) == "EAGAIN") {
    }
}

TEST(SimulatedWaitDeathTest, ADeadlockAbortsWithTheLastCalls) {
    EXPECT_DEATH(wait_for_nothing(), "nothing will ever happen(.|\n)*udp 127.0.0.1:(.|\n)*bind");
}

TEST(SimulatedWaitDeathTest, AProgramThatSpinsIsStopped) {
    EXPECT_DEATH(spin(), "the program spins");
}

}  // namespace
}  // namespace berth::internal
