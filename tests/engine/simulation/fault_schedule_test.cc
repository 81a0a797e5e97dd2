// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/fault_schedule.h"

#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace berth::internal {
namespace {

using namespace test;

TEST(FaultSchedule, TheNthCallOfAKindFails) {
    Simulation simulation;
    const int server = listener();
    simulation.faults().fail({.kind = CallKind::accept4, .nth = 2}, ENFILE);
    EXPECT_FAILS(EAGAIN, accept_from(server));
    EXPECT_FAILS(ENFILE, accept_from(server));
    EXPECT_FAILS(EAGAIN, accept_from(server));
    EXPECT_EQ(simulation.faults().fault_count(), 1U);
}

TEST(FaultSchedule, RulesSpeakOfOneDescriptorOrOfAll) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    simulation.faults()
        .fail({.kind = CallKind::send, .fd = pair.client, .times = 2}, ENOBUFS)
        .fail({.kind = CallKind::socket, .times = kAlways}, EMFILE);
    EXPECT_EQ(send_text(pair.server, "x"), 1);
    EXPECT_FAILS(ENOBUFS, send_text(pair.client, "x"));
    EXPECT_FAILS(ENOBUFS, send_text(pair.client, "x"));
    EXPECT_EQ(send_text(pair.client, "x"), 1);
    for (int number = 0; number < 5; ++number) EXPECT_FAILS(EMFILE, open_tcp());
    simulation.faults().clear();
    EXPECT_GE(open_tcp(), 0);
}

TEST(FaultSchedule, ACutMovesNoMoreThanThat) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    simulation.faults().cut({.kind = CallKind::send}, 3).cut({.kind = CallKind::recv}, 2);
    EXPECT_EQ(send_text(pair.client, "abcdef"), 3);
    EXPECT_EQ(receive(pair.server), "ab");
    EXPECT_EQ(receive(pair.server), "c");
    // Datagrams are left alone.
    const int receiver = bound_udp();
    simulation.faults().cut({.kind = CallKind::sendto}, 1);
    EXPECT_EQ(send_text_to(open_udp(), "whole", local_name(receiver)), 5);
}

TEST(FaultSchedule, ADelayedCallTakesTimeInWhichTheNetworkGoesOn) {
    Simulation simulation({.latency = 2ms});
    const TcpPair pair = tcp_pair();
    simulation.faults().delay({.kind = CallKind::recv}, 5ms);
    send_text(pair.client, "x");
    const auto start = simulation.now();
    EXPECT_EQ(receive(pair.server), "x");
    EXPECT_EQ(simulation.now(), start + 5ms);
}

TEST(FaultSchedule, ALateDeliveryKeepsTheOrderOfAStream) {
    Simulation simulation({.latency = 1ms});
    const TcpPair pair = tcp_pair();
    simulation.faults().deliver_late({.kind = CallKind::send}, 10ms);
    send_text(pair.client, "first ");
    send_text(pair.client, "second");
    simulation.advance(10ms);
    EXPECT_EQ(receive(pair.server), "EAGAIN");
    simulation.advance(1ms);
    EXPECT_EQ(receive(pair.server), "first second");
}

TEST(FaultSchedule, AnInventedEagainIsFollowedByAnEdge) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.server, EPOLLIN | EPOLLET), 0);
    send_text(pair.client, "x");
    EXPECT_EQ(next_event(epoll), EPOLLIN);
    simulation.faults().fail({.kind = CallKind::recv}, EAGAIN);
    EXPECT_EQ(receive(pair.server), "EAGAIN");
    EXPECT_EQ(next_event(epoll, 1s), EPOLLIN);
    EXPECT_EQ(receive(pair.server), "x");
}

TEST(FaultSchedule, TheDiceBreakConnectionsForBothSides) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    simulation.faults().set_rates(CallKind::send, {.timed_out = 1});
    EXPECT_FAILS(ETIMEDOUT, send_text(pair.client, "x"));
    EXPECT_EQ(receive(pair.server), "ECONNRESET");
    EXPECT_FAILS(EPIPE, send_text(pair.client, "x"));
}

TEST(FaultSchedule, SpuriousReadinessIsReportedByAllWaits) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    const int epoll = simulation.make_epoll();
    EXPECT_EQ(watch(epoll, pair.server, EPOLLIN | EPOLLET), 0);
    EXPECT_EQ(next_event(epoll), 0U);
    simulation.faults().set_rates({.spurious_readiness = 1});
    EXPECT_EQ(next_event(epoll), EPOLLIN);
    EXPECT_EQ(poll_for(pair.server, POLLIN, 0ns), POLLIN);
    std::vector<unsigned long> words((1U << 20) / 64 + 1);
    words.back() = 1UL << (static_cast<unsigned>(pair.server) % 64);
    const timespec no_time{};
    EXPECT_EQ(calls().pselect((1 << 20) + 64, reinterpret_cast<fd_set*>(words.data()), nullptr,
                              nullptr, &no_time, nullptr),
              1);
    EXPECT_NE(words.back(), 0U);
    EXPECT_EQ(receive(pair.server), "EAGAIN");
}

TEST(FaultSchedule, RatesOfOneHitEachKindOfCallThatTheyAreFor) {
    Simulation simulation;
    const TcpPair pair = tcp_pair();
    simulation.faults().set_rates({.no_buffers = 1, .no_descriptors = 1});
    EXPECT_FAILS(ENOBUFS, send_text(pair.client, "x"));
    EXPECT_FAILS(EMFILE, open_udp());
    EXPECT_FAILS(EMFILE, accept_from(pair.listener));
    simulation.faults().set_rates({.interrupt = 1});
    EXPECT_FAILS(EINTR, send_text(pair.client, "x"));
    EXPECT_FAILS(EINTR, calls().ppoll(nullptr, 0, nullptr, nullptr));
    EXPECT_GE(open_udp(), 0);
    simulation.faults().set_rates({.late_delivery = 1, .latest_delivery = 5ms});
    send_text(pair.client, "x");
    EXPECT_EQ(poll_for(pair.server, POLLIN, 5ms), POLLIN);
}

FaultRates bad_day() {
    return {.short_read = 0.3,
            .short_write = 0.3,
            .spurious_eagain = 0.2,
            .interrupt = 0.2,
            .spurious_readiness = 0.2,
            .late_delivery = 0.2};
}

// Sends a text through a connection whose both ends wait for edges only, as an event loop does.
class EdgeTransfer {
public:
    explicit EdgeTransfer(Simulation& simulation)
        : pair_(tcp_pair()), epoll_(simulation.make_epoll()) {
        for (std::size_t index = 0; index < text_.size(); ++index) {
            text_[index] = static_cast<char>('a' + index * 7 % 26);
        }
        watch(epoll_, pair_.client, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
        watch(epoll_, pair_.server, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    }

    /// False: the transfer has stopped before its end.
    bool run() {
        constexpr int kLimit = 100'000;
        for (int turn = 0; turn < kLimit && !is_at_end_; ++turn) {
            epoll_event event{};
            const timespec time = to_time(1h);
            const int count = calls().epoll_pwait2(epoll_, &event, 1, &time, nullptr);
            if (count == 0 || (count < 0 && errno != EINTR)) {
                return false;
            }
            if (count > 0) {
                event.data.fd == pair_.client ? write_on() : read_on();
            }
        }
        return is_at_end_ && received_ == text_;
    }

private:
    void write_on() {
        while (sent_ < text_.size()) {
            const ssize_t count = send_text(pair_.client, text_.substr(sent_, 5'000));
            if (count < 0 && errno == EAGAIN) {
                return;
            }
            sent_ += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        }
        if (!is_shut_) {
            is_shut_ = true;
            calls().shutdown(pair_.client, SHUT_WR);
        }
    }

    void read_on() {
        std::array<char, 3'000> part;
        while (!is_at_end_) {
            const ssize_t count = calls().recv(pair_.server, part.data(), part.size(), 0);
            if (count < 0 && errno == EAGAIN) {
                return;
            }
            is_at_end_ = count == 0;
            received_.append(part.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        }
    }

    TcpPair pair_;
    int epoll_;
    std::string text_ = std::string(60'000, '.');
    std::size_t sent_ = 0;
    bool is_shut_ = false;
    std::string received_;
    bool is_at_end_ = false;
};

SimulationOptions bad_day_options(std::uint64_t seed) {
    SimulationOptions options{.seed = seed,
                              .faults = FaultSchedule(seed),
                              .latency = 100us,
                              .segment_size = 1'460,
                              .send_buffer = 20'000,
                              .receive_buffer = 20'000};
    options.trace_length = 100'000;
    return options;
}

TEST(FaultSchedule, NoFaultLosesAnEdgeOrAByte) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Simulation simulation(bad_day_options(seed));
        EdgeTransfer transfer(simulation);
        simulation.faults().set_rates(bad_day());
        EXPECT_TRUE(transfer.run()) << "seed " << seed;
        EXPECT_GT(simulation.faults().fault_count(), 10U);
    }
}

TEST(FaultSchedule, TheSameSeedGivesTheSameRun) {
    const auto trace_of = [](std::uint64_t seed) {
        Simulation simulation(bad_day_options(seed));
        EdgeTransfer transfer(simulation);
        simulation.faults().set_rates(bad_day());
        transfer.run();
        return simulation.trace();
    };
    const std::string first = trace_of(7);
    EXPECT_EQ(trace_of(7), first);
    EXPECT_NE(trace_of(8), first);
}

TEST(Trace, TellsTheLastCallsAndTheirFaults) {
    Simulation simulation({.trace_length = 3});
    const TcpPair pair = tcp_pair();
    simulation.faults().cut({.kind = CallKind::send}, 2).fail({.kind = CallKind::recv}, EINTR);
    send_text(pair.client, "abc");
    receive(pair.server, 9);
    receive(pair.server, 10);
    const std::string expected =
        " 1000.000000000 send(" + std::to_string(pair.client) + ", 3) = 2, cut to 2\n";
    EXPECT_NE(simulation.trace().find(expected), std::string::npos) << simulation.trace();
    EXPECT_NE(simulation.trace().find(", 9) = EINTR, made to answer EINTR\n"), std::string::npos);
    EXPECT_TRUE(simulation.trace().ends_with(", 10) = 2\n")) << simulation.trace();
    EXPECT_EQ(std::ranges::count(simulation.trace(), '\n'), 3);
}

}  // namespace
}  // namespace berth::internal
