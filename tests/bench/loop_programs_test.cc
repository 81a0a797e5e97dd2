// SPDX-License-Identifier: Apache-2.0
// Every program that was built in does every job it claims, with tiny numbers, and what it
// transferred is right.
#include "bench/churn/accept_slice.h"
#include "bench/churn/connect_slice.h"
#include "bench/connect/destinations.h"
#include "bench/datagrams/datagram_slice.h"
#include "bench/echo/echo_pair.h"
#include "bench/transfer/transfer_slice.h"
#include "bench/wake/poster.h"
#include "tests/support/network_namespace.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace berth::bench {
namespace {

constexpr PortRange kRange = {40'000, 40'499};

// Several in a row, so that their ends come at different times.
constexpr unsigned kConnections = 5;

Environment test_environment() {
    Environment environment;
    environment.range = kRange;
    environment.descriptor_limit = 1'024;
    return environment;
}

class LoopProgram : public testing::TestWithParam<std::size_t> {
protected:
    void SetUp() override {
        if (program().probe != nullptr && !program().probe()) {
            GTEST_SKIP() << program().probe().error().message();
        }
    }
    static const Program& program() { return programs()[GetParam()]; }

    /// The body runs where a job's children may listen and connect.
    static void run(const std::function<void()>& body) {
        test::NamespaceOptions options;
        options.range = kRange;
        test::in_network_namespace(options, body);
    }
};

std::string parameter_name(const testing::TestParamInfo<std::size_t>& info) {
    std::string name = name_of(programs()[info.param]);
    std::ranges::replace_if(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(All, LoopProgram, testing::Range(std::size_t{0}, programs().size()),
                         parameter_name);

TEST_P(LoopProgram, ReadsEveryStreamToItsEnd) {
    if (program().transfer == nullptr) {
        GTEST_SKIP() << "it has no transfer";
    }
    run([] {
        for (const unsigned connections : {1U, kConnections}) {
            const auto slice =
                run_transfer_slice(program(), connections, test_environment(), false);
            ASSERT_TRUE(slice) << slice.error().message();
            EXPECT_GT(slice->report.cpu_ns, 0U);
        }
    });
}

TEST_P(LoopProgram, SendsBackWhatComesInOrder) {
    if (program().echo == nullptr) {
        GTEST_SKIP() << "it has no echo";
    }
    run([] {
        const EchoScene scene = {.cpus = {}, .connections = kConnections, .active = 2, .seed = 1};
        auto pair = EchoPair::start(program(), scene, test_environment());
        ASSERT_TRUE(pair) << pair.error().message();
        const auto closed = pair->run_closed(std::chrono::milliseconds(5));
        ASSERT_TRUE(closed) << closed.error().message();
        EXPECT_GT(closed->message_count, 0U);
        EXPECT_TRUE(closed->is_intact);
        const auto open = pair->run_open(10'000, std::chrono::milliseconds(5));
        ASSERT_TRUE(open) << open.error().message();
        EXPECT_EQ(open->message_count, 51U);
        EXPECT_EQ(pair->latencies().count(), 51U);
        EXPECT_TRUE(open->is_intact);
    });
}

TEST(EchoPair, TheServersOwnReasonReachesTheDriver) {
    Program program = {.program = "test", .engine = "test"};
    program.echo = [](EchoJob&) -> Result<void> {
        return std::unexpected(Error(Errc::unsupported, "test", "many connections"));
    };
    test::in_network_namespace([&] {
        const auto pair =
            EchoPair::start(program, {.cpus = {}, .connections = 3}, test_environment());
        ASSERT_FALSE(pair);
        EXPECT_EQ(pair.error().code(), Errc::unsupported) << pair.error().message();
        EXPECT_EQ(pair.error().subject(), "many connections");
    });
}

TEST(EchoPair, AServerThatGarblesIsNoticed) {
    Program program = {.program = "test", .engine = "test"};
    program.echo = [](EchoJob& job) -> Result<void> {
        int fd = -1;
        while ((fd = ::accept(job.listener, nullptr, nullptr)) < 0) {
        }
        std::array<char, 64> message{};
        while (::recv(fd, message.data(), message.size(), MSG_WAITALL) > 0) {
            message[10] ^= 1;
            ::send(fd, message.data(), message.size(), MSG_NOSIGNAL);
        }
        ::close(fd);
        return {};
    };
    test::in_network_namespace([&] {
        auto pair = EchoPair::start(program, {}, test_environment());
        ASSERT_TRUE(pair) << pair.error().message();
        const auto slice = pair->run_closed(std::chrono::milliseconds(1));
        ASSERT_TRUE(slice) << slice.error().message();
        EXPECT_FALSE(slice->is_intact);
    });
}

TEST_P(LoopProgram, AcceptsConnectionsThatEndAtOnceAndReturns) {
    if (program().echo == nullptr) {
        GTEST_SKIP() << "it has no echo";
    }
    run([] {
        const auto slice = run_accept_slice(program(), 50, test_environment(), false);
        ASSERT_TRUE(slice) << slice.error().message();
        EXPECT_GT(slice->report.cpu_ns, 0U);
    });
}

TEST_P(LoopProgram, ConnectsAndClosesWithAnybodysPorts) {
    if (program().churn == nullptr) {
        GTEST_SKIP() << "it has no churn";
    }
    run([] {
        const auto server = Destinations::start(1, Family::ipv4, test_environment());
        ASSERT_TRUE(server);
        for (const bool uses_port_table : {false, true}) {
            const auto slice = run_connect_slice(
                program(), {server->addresses().front(), uses_port_table, 50}, false);
            if (!slice && slice.error().code() == Errc::unsupported) {
                continue;
            }
            ASSERT_TRUE(slice) << slice.error().message();
            EXPECT_EQ(slice->report.values[0], 50U) << uses_port_table;
        }
    });
}

TEST_P(LoopProgram, DatagramsArriveRightInEveryMode) {
    if (program().datagrams == nullptr) {
        GTEST_SKIP() << "it has no datagrams";
    }
    run([] {
        for (const auto mode :
             {DatagramMode::single, DatagramMode::batched, DatagramMode::segmented}) {
            for (const bool is_sender : {false, true}) {
                const DatagramScene scene = {.mode = mode,
                                             .is_sender = is_sender,
                                             .datagram_size = 64,
                                             .datagram_count = 500};
                const auto slice = run_datagram_slice(program(), scene, false);
                if (!slice && slice.error().code() == Errc::unsupported) {
                    continue;
                }
                ASSERT_TRUE(slice) << slice.error().message();
                EXPECT_EQ(slice->report.values[0], 500U) << is_sender;
                EXPECT_GT(slice->report.values[1], 0U) << is_sender;
            }
        }
    });
}

TEST_P(LoopProgram, EveryPostArrivesOnceAndInOrder) {
    if (program().wake == nullptr) {
        GTEST_SKIP() << "it has no wake";
    }
    for (const std::uint64_t pause_ns : {0U, 10'000U}) {
        Poster poster({.count = 200, .pause_ns = pause_ns, .window = 16});
        WakeJob job = poster.job();
        const Result<void> done = program().wake(job);
        ASSERT_TRUE(done) << done.error().message();
        EXPECT_TRUE(poster.is_intact());
        EXPECT_EQ(poster.latencies_ns().size(), pause_ns > 0 ? 200U : 0U);
    }
}

}  // namespace
}  // namespace berth::bench
