// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_request.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace berth::cli {
namespace {

std::vector<GivenOption> given(std::initializer_list<std::pair<const char*, const char*>> options) {
    std::vector<GivenOption> result;
    for (const auto& [name, value] : options) {
        const auto found =
            std::ranges::find(bench_options(), std::string_view(name), &BenchOption::name);
        EXPECT_NE(found, bench_options().end()) << name;
        result.push_back({&*found, value});
    }
    return result;
}

TEST(BenchRequest, EveryVariableIsAList) {
    const auto request = make_request("bind", given({{"protocol", "tcp,udp"},
                                                     {"family", "ipv6"},
                                                     {"allocator", "kernel,berth"},
                                                     {"occupancy", "0,99.9,100,0"},
                                                     {"repeats", "3"},
                                                     {"seed", "42"}}));
    ASSERT_TRUE(request.has_value());
    const bench::Selection& selection = request->selection;
    EXPECT_EQ(selection.protocols, (std::vector{Protocol::tcp, Protocol::udp}));
    EXPECT_EQ(selection.families, std::vector{Family::ipv6});
    EXPECT_EQ(selection.allocators, (std::vector<std::string>{"kernel", "berth"}));
    EXPECT_EQ(selection.occupancies_percent, (std::vector<double>{0, 99.9, 100}));
    EXPECT_EQ(selection.repeats, 3U);
    EXPECT_EQ(selection.seed, 42U);
    EXPECT_FALSE(selection.is_headline);
}

TEST(BenchRequest, TheReproducersOptionsReachTheSelection) {
    const auto request = make_request("reproducer", given({{"workers", "64"},
                                                           {"mode", "threads"},
                                                           {"rate", "5000"},
                                                           {"hold", "99.3"},
                                                           {"seconds", "2.5"},
                                                           {"probe", "glxgears -info"},
                                                           {"format", "ndjson"},
                                                           {"namespace", "host"}}));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->selection.workers, 64U);
    EXPECT_EQ(request->selection.mode, bench::WorkerMode::threads);
    EXPECT_EQ(request->selection.rate, 5000);
    EXPECT_EQ(request->selection.hold_percent, 99.3);
    EXPECT_EQ(request->selection.seconds, 2.5);
    EXPECT_EQ(request->selection.probe_command, "glxgears -info");
    EXPECT_EQ(request->format, Format::ndjson);
    EXPECT_EQ(request->where, bench::NamespaceChoice::host);
}

TEST(BenchRequest, TheLoopsOptionsReachTheSelection) {
    const auto request = make_request("idle", given({{"program", "raw,berth-coroutines"},
                                                     {"engine", "epoll-edge,io_uring"},
                                                     {"connections", "1,8000"},
                                                     {"idle", "0,18900"}}));
    ASSERT_TRUE(request.has_value()) << request.error().message;
    const bench::Selection& selection = request->selection;
    EXPECT_EQ(selection.programs, (std::vector<std::string>{"raw", "berth-coroutines"}));
    EXPECT_EQ(selection.engines, (std::vector<std::string>{"epoll-edge", "io_uring"}));
    EXPECT_EQ(selection.connections, (std::vector<unsigned>{1, 8'000}));
    EXPECT_EQ(selection.idle, (std::vector<unsigned>{0, 18'900}));
}

TEST(BenchRequest, AnUnknownProgramOrEngineIsRefusedWithTheKnownOnes) {
    const auto program = make_request("echo", given({{"program", "raw,libfoo"}}));
    ASSERT_FALSE(program.has_value());
    EXPECT_NE(program.error().message.find("'libfoo'; accepted: raw, berth"), std::string::npos)
        << program.error().message;
    const auto engine = make_request("", given({{"engine", "kqueue"}}));
    ASSERT_FALSE(engine.has_value());
    EXPECT_NE(engine.error().message.find("'kqueue'; accepted: select"), std::string::npos)
        << engine.error().message;
}

TEST(BenchRequest, TimersHaveProgramsOfTheirOwn) {
    EXPECT_TRUE(make_request("timers", given({{"program", "berth,heap"}})));
    EXPECT_FALSE(make_request("timers", given({{"program", "raw"}})));
    EXPECT_FALSE(make_request("echo", given({{"program", "heap"}})));
}

TEST(BenchRequest, MemoryIsMeasuredInRounds) {
    EXPECT_TRUE(make_request("memory", given({{"repeats", "3"}, {"seconds", "5"}})));
}

TEST(BenchRequest, ABenchOfAllocatorsKnowsNoProgramsAndTheOtherWayRound) {
    EXPECT_FALSE(make_request("bind", given({{"program", "raw"}})));
    EXPECT_FALSE(make_request("echo", given({{"allocator", "kernel"}})));
}

TEST(BenchRequest, WithoutANameItIsTheHeadline) {
    const auto request = make_request("", given({{"rate", "5"}, {"threads", "1,2"}}));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->bench, nullptr);
    EXPECT_TRUE(request->selection.is_headline);
    EXPECT_EQ(request->selection.threads, (std::vector<unsigned>{1, 2}));
}

TEST(BenchRequest, EveryBenchKnowsItsAllocators) {
    for (const BenchEntry& entry : bench_catalogue()) {
        for (const std::string_view allocator : entry.allocators()) {
            const std::string name(allocator);
            EXPECT_TRUE(make_request(entry.name, given({{"allocator", name.c_str()}})))
                << entry.name << ' ' << name;
        }
    }
}

}  // namespace
}  // namespace berth::cli
