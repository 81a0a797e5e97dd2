// SPDX-License-Identifier: Apache-2.0
#include "cli/output/summary.h"

#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using bench::Row;

Row bind_row(const char* allocator, double occupancy, double p50_ns, const char* protocol = "tcp") {
    Row row{.bench = "bind", .variables = {}, .figures = {}};
    row.variable("protocol", protocol)
        .variable("family", "ipv4")
        .variable("allocator", allocator)
        .variable("occupancy_percent", occupancy)
        .figure("p50_ns", p50_ns);
    return row;
}

Row harm_row(const char* allocator, double before, double during) {
    Row row{.bench = "reproducer", .variables = {}, .figures = {}};
    row.variable("protocol", "tcp")
        .variable("allocator", allocator)
        .variable("workers", std::int64_t{64})
        .variable("rate", 1'000.0)
        .variable("hold_percent", 60.0)
        .figure("fps_before", before)
        .figure("fps_during", during)
        .figure("fps_kept_percent", 100.0 * during / before);
    return row;
}

Row total_row(const char* allocator, std::int64_t succeeded, double total_ms,
              const char* stopped_by) {
    Row row{.bench = "connect", .variables = {}, .figures = {}};
    row.variable("allocator", allocator).variable("destinations", std::int64_t{1});
    row.figure("succeeded", succeeded).figure("total_ms", total_ms);
    row.figure("stopped_by", stopped_by);
    return row;
}

TEST(Summary, SaysWhereTheKernelBecomesSlowAndThatBerthDoesNot) {
    EXPECT_EQ(bind_sentence({bind_row("kernel", 0, 1'400), bind_row("kernel", 50, 1'757'000),
                             bind_row("kernel", 99, 2'734'000), bind_row("kernel", 100, 9e6),
                             bind_row("berth", 0, 1'500), bind_row("berth", 50, 1'500)}),
              "On this host a TCP bind(0) becomes 1,255 × slower once half of the ports are "
              "taken; with berth it does not.");
}

TEST(Summary, SaysSoWhenBerthBecomesSlowerToo) {
    EXPECT_EQ(bind_sentence({bind_row("kernel", 0, 1'000), bind_row("kernel", 99.9, 20'000),
                             bind_row("berth", 0, 1'000), bind_row("berth", 99.9, 3'000)}),
              "On this host a TCP bind(0) becomes 20 × slower once 99.9 % of the ports are taken; "
              "with berth 3 ×.");
}

TEST(Summary, ClaimsNothingWhereTheKernelStaysFast) {
    EXPECT_EQ(bind_sentence({bind_row("kernel", 0, 1'000), bind_row("kernel", 90, 1'100),
                             bind_row("berth", 0, 1'000), bind_row("berth", 90, 1'000)}),
              "On this host a TCP bind(0) takes about as long when 90 % of the ports are taken as "
              "when no port is taken.");
}

TEST(Summary, OneOccupancyAloneIsNoComparison) {
    EXPECT_EQ(bind_sentence({bind_row("kernel", 0, 1'400)}),
              "On this host a TCP bind(0) takes 1.4 µs when no port is taken.");
    EXPECT_EQ(bind_sentence({bind_row("kernel", 100, 9e6)}), "");
}

TEST(Summary, WithoutBerthsRowsItSpeaksOfTheKernelAlone) {
    EXPECT_EQ(bind_sentence(
                  {bind_row("kernel", 0, 1'000, "udp"), bind_row("kernel", 99.9, 90'000, "udp")}),
              "On this host a UDP bind(0) becomes 90 × slower once 99.9 % of the ports are taken.");
}

TEST(Summary, HarmIsThePartOfTheFramesThatIsLeft) {
    EXPECT_EQ(harm_sentence({harm_row("spin", 2'000, 1'000), harm_row("kernel", 2'332, 81),
                             harm_row("berth", 2'000, 2'140)}),
              "A program that asks for 1,000 TCP binds/s while 60 % of the ports are taken leaves "
              "others 3 % of their frames; with berth, 100 %.");
    EXPECT_EQ(harm_sentence({harm_row("kernel", 2'332, 81)}),
              "A program that asks for 1,000 TCP binds/s while 60 % of the ports are taken leaves "
              "others 3 % of their frames.");
    EXPECT_EQ(harm_sentence({harm_row("berth", 2'332, 2'332)}), "");
}

TEST(Summary, ConnectingTellsWhetherItCameToTheEnd) {
    EXPECT_EQ(connect_sentence({total_row("kernel", 16'683, 8'000, "time"),
                                total_row("berth", 19'000, 657, "exhaustion")}),
              "To one destination connect() opens 16,683 connections in 8 s (stopped by the time "
              "limit); berth 19,000 connections in 657 ms.");
    EXPECT_EQ(connect_sentence({total_row("berth", 19'000, 657, "exhaustion")}),
              "To one destination berth opens 19,000 connections in 657 ms.");
}

TEST(Summary, WithoutConnectionsItSpeaksOfTheChoice) {
    Row row{.bench = "table", .variables = {}, .figures = {}};
    row.variable("allocator", "berth").variable("occupancy_percent", 99.9);
    row.variable("threads", std::int64_t{1}).figure("p50_ns", 62.0);
    EXPECT_EQ(summarize({row}),
              std::vector<std::string>{
                  "berth takes and releases a port in 62 ns when 99.9 % of the ports are taken."});
}

Row idle_row(const char* program, const char* engine, std::int64_t idle, double ns) {
    Row row{.bench = "idle", .variables = {}, .figures = {}};
    row.variable("program", program).variable("engine", engine);
    row.variable("connections", std::int64_t{100}).variable("idle", idle);
    row.figure("cpu_ns_per_message", ns);
    return row;
}

TEST(Summary, WaitingIsToldWhereMostConnectionsSayNothing) {
    const std::vector<Row> rows = {
        idle_row("raw", "poll", 0, 5'000), idle_row("berth", "epoll", 0, 5'000),
        idle_row("raw", "poll", 7'900, 71'000), idle_row("raw", "epoll", 7'900, 12'000),
        idle_row("berth", "epoll", 7'900, 13'000)};
    EXPECT_EQ(waiting_sentence(rows),
              "While 7,900 of 8,000 connections say nothing, a message costs a poll() loop 71 µs; "
              "with berth, 13 µs.");
    // Of different numbers of connections nothing is said.
    EXPECT_EQ(waiting_sentence({idle_row("raw", "poll", 900, 71'000),
                                idle_row("berth", "io_uring", 7'900, 12'000)}),
              "");
}

TEST(Summary, NothingMeasuredNothingSaid) { EXPECT_TRUE(summarize({}).empty()); }

}  // namespace
}  // namespace berth::cli
