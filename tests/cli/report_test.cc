// SPDX-License-Identifier: Apache-2.0
#include "cli/output/report.h"

#include "cli/output/layout.h"
#include "cli/output/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <sstream>

namespace berth::cli {
namespace {

using bench::Row;
using testing::HasSubstr;

HostFacts example_host() {
    return {.kernel = "6.18.4-amd64",
            .cpus = 2,
            .port_range = "32768-51767",
            .version = "0.1.0",
            .seed = 42,
            .started = "2026-01-02T03:04:05Z",
            .isolation = "network"};
}

Row bind_row(const char* allocator, double occupancy, double p50_ns) {
    Row row{.bench = "bind", .variables = {}, .figures = {}};
    row.variable("protocol", "tcp")
        .variable("family", "ipv4")
        .variable("allocator", allocator)
        .variable("occupancy_percent", occupancy);
    row.figure("p50_ns", p50_ns).figure("succeeded", std::int64_t{1400}).figure("rounds", 7.0);
    return row;
}

std::vector<Row> bind_rows() {
    return {bind_row("kernel", 0, 1'400),       bind_row("berth", 0, 1'500),
            bind_row("floor", 0, 1'200),        bind_row("kernel", 99.9, 1'757'000),
            bind_row("berth", 99.9, 1'500),     bind_row("floor", 99.9, 1'200),
            bind_row("kernel", 100, 7'604'000), bind_row("berth", 100, 600)};
}

std::string written(ReportWriter& writer, std::ostringstream& out, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
        writer.row(row);
    }
    writer.end_bench();
    writer.finish({{"A sentence."}, {"A note."}, true});
    return out.str();
}

TEST(Report, JsonKeepsItsContract) {
    std::ostringstream out;
    const auto writer = make_json_writer(out, example_host());
    const auto object = nlohmann::json::parse(written(*writer, out, bind_rows()));
    EXPECT_EQ(object["schema"], "berth.bench/1");
    EXPECT_EQ(object["host"], (nlohmann::json{{"kernel", "6.18.4-amd64"},
                                              {"cpus", 2},
                                              {"port_range", "32768-51767"},
                                              {"version", "0.1.0"},
                                              {"seed", 42},
                                              {"started", "2026-01-02T03:04:05Z"},
                                              {"namespace", "network"}}));
    ASSERT_EQ(object["rows"].size(), 8U);
    EXPECT_EQ(object["rows"][3], (nlohmann::json{{"bench", "bind"},
                                                 {"protocol", "tcp"},
                                                 {"family", "ipv4"},
                                                 {"allocator", "kernel"},
                                                 {"occupancy_percent", 99.9},
                                                 {"p50_ns", 1'757'000},
                                                 {"succeeded", 1400},
                                                 {"rounds", 7}}));
    EXPECT_EQ(object["summary"], nlohmann::json({"A sentence."}));
    EXPECT_EQ(object["notes"], nlohmann::json({"A note."}));
    EXPECT_EQ(object["partial"], true);
}

TEST(Report, WhatWasNotMeasuredIsNullInJsonAndEmptyInCsv) {
    Row row{.bench = "table", .variables = {}, .figures = {}};
    row.variable("allocator", "berth").figure("chi2_p", bench::Value{});
    row.figure("p50_ns", std::numeric_limits<double>::infinity());
    std::ostringstream json;
    const auto object =
        nlohmann::json::parse(written(*make_json_writer(json, example_host()), json, {row}));
    EXPECT_TRUE(object["rows"][0]["chi2_p"].is_null());
    EXPECT_TRUE(object["rows"][0]["p50_ns"].is_null());
    std::ostringstream csv;
    EXPECT_THAT(written(*make_csv_writer(csv, example_host()), csv, {row}),
                HasSubstr("table,berth,,,6.18.4-amd64"));
}

TEST(Report, AnEmptyResultIsStillAWholeObject) {
    std::ostringstream out;
    const auto object =
        nlohmann::json::parse(written(*make_json_writer(out, example_host()), out, {}));
    EXPECT_TRUE(object["rows"].is_array());
}

TEST(Report, CsvHasOneColumnForEachKeyOfAnyRow) {
    Row other{.bench = "connect", .variables = {}, .figures = {}};
    other.variable("allocator", "a,\"b\"").figure("total_ms", 1.5);
    std::ostringstream out;
    const std::string text =
        written(*make_csv_writer(out, example_host()), out, {bind_row("kernel", 99.9, 5), other});
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line,
              "bench,protocol,family,allocator,occupancy_percent,p50_ns,succeeded,rounds,"
              "total_ms,kernel,cpus,port_range,version,seed,started,namespace");
    std::getline(lines, line);
    EXPECT_THAT(line, testing::StartsWith("bind,tcp,ipv4,kernel,99.9,5,1400,7,,6.18.4-amd64,2,"));
    std::getline(lines, line);
    EXPECT_THAT(line, testing::StartsWith("connect,,,\"a,\"\"b\"\"\",,,,,1.5,"));
}

TEST(Report, NdjsonIsOneObjectALine) {
    std::ostringstream out;
    const std::string text = written(*make_ndjson_writer(out, example_host()), out, bind_rows());
    std::istringstream lines(text);
    std::vector<nlohmann::json> objects;
    for (std::string line; std::getline(lines, line);) {
        objects.push_back(nlohmann::json::parse(line));
    }
    ASSERT_EQ(objects.size(), 10U);
    EXPECT_EQ(objects.front()["schema"], "berth.bench/1");
    EXPECT_EQ(objects[1]["bench"], "bind");
    EXPECT_EQ(objects.back()["summary"][0], "A sentence.");
}

TEST(Report, TextIsATableOfOccupanciesAndAllocators) {
    std::ostringstream out;
    const auto writer = make_text_writer(out, {}, example_host());
    EXPECT_EQ(written(*writer, out, bind_rows()),
              "bind(0), TCP, IPv4 · 19,000 ports (32768–51767) · Linux 6.18 · 2 CPUs · "
              "median of 7, interleaved\n"
              "\n"
              "   taken     kernel     berth    floor   kernel/berth\n"
              "     0 %     1.4 µs    1.5 µs   1.2 µs            0.9\n"
              "  99.9 %   1,757 µs    1.5 µs   1.2 µs          1,171\n"
              "    full   7,604 µs   0.60 µs        –         12,673\n"
              "\n"
              "A sentence.\n");
}

TEST(Report, ColourIsOnlyWrittenWhereItIsWanted) {
    std::ostringstream plain;
    std::ostringstream coloured;
    written(*make_text_writer(plain, {}, example_host()), plain, bind_rows());
    written(*make_text_writer(coloured, {.is_terminal = true, .has_colour = true}, example_host()),
            coloured, bind_rows());
    EXPECT_EQ(plain.str().find('\033'), std::string::npos);
    EXPECT_NE(coloured.str().find("\033[1m"), std::string::npos);
}

TEST(Report, RowsWithoutAnOccupancyAreAListWithTheirConstantsInTheTitle) {
    std::vector<Row> rows;
    for (const char* allocator : {"kernel", "berth"}) {
        Row row{.bench = "reproducer", .variables = {}, .figures = {}};
        row.variable("protocol", "udp").variable("allocator", allocator).variable("workers", 64.0);
        row.figure("binds_per_second", 106'121.0).figure("longest_frame_ms", 536.8);
        row.figure("fps_after", bench::Value{});
        rows.push_back(row);
    }
    std::ostringstream out;
    const std::string text = written(*make_text_writer(out, {}, example_host()), out, rows);
    EXPECT_THAT(text, HasSubstr("UDP, 64 workers · 19,000 ports"));
    EXPECT_THAT(text, HasSubstr("  allocator   binds/s   longest frame\n"
                                "  kernel      106,121          537 ms\n"));
    EXPECT_THAT(text, testing::Not(HasSubstr("fps")));
}

TEST(Report, RowsOfDifferentProtocolsAreSeparateTables) {
    std::vector<Row> rows = bind_rows();
    rows.push_back(bind_row("kernel", 0, 1));
    rows.back().variables.front().second = "udp";
    EXPECT_EQ(lay_out(rows, example_host()).size(), 2U);
}

Row program_row(const char* program, const char* side, double cpu_ns) {
    Row row{.bench = "datagrams", .variables = {}, .figures = {}};
    row.variable("program", program).variable("engine", "epoll").variable("side", side);
    row.figure("cpu_ns_per_message", cpu_ns)
        .figure("user_percent", 25.0)
        .figure("user_ms", cpu_ns / 4)
        .figure("system_ms", cpu_ns * 3 / 4)
        .figure("messages_per_second", 1e9 / cpu_ns)
        .figure("lost_percent", 0.0)
        .figure("syscalls_per_message", 1.0)
        .figure("allocations_per_message", 0.0)
        .figure("ratio_to_raw", 1.0)
        .figure("ratio_to_epoll", 1.0)
        .figure("rounds", std::int64_t{90});
    return row;
}

TEST(Report, ProgramsAreComparedInOneTableForEachSide) {
    const std::vector<Row> rows = {
        program_row("raw", "receive", 1'600), program_row("berth", "receive", 1'650),
        program_row("raw", "send", 2'600), program_row("berth", "send", 2'650)};
    const std::vector<Section> sections = lay_out(rows, example_host());
    ASSERT_EQ(sections.size(), 2U);
    EXPECT_THAT(sections[0].title, HasSubstr("engine epoll, side receive"));
    EXPECT_THAT(sections[1].title, HasSubstr("side send"));
}

TEST(Report, AListThatIsTooWideDividesItsHeadings) {
    std::ostringstream out;
    const std::string text = written(
        *make_text_writer(out, {}, example_host()), out,
        {program_row("raw", "send", 1'600), program_row("berth-coroutines", "send", 1'650)});
    constexpr const char* kTable =
        "                      cpu ns                              syscalls   ratio   ratio\n"
        "                         per                                   per      to      to\n"
        "  program            message   user   messages/s   lost    message     raw   epoll\n"
        "  raw                  1,600   25 %      625,000    0 %          1    1.00    1.00\n";
    EXPECT_THAT(text, HasSubstr(kTable));
}

TEST(Units, NumbersReadAsPeopleWriteThem) {
    EXPECT_EQ(grouped(1'234'567), "1,234,567");
    EXPECT_EQ(grouped(-1'234), "-1,234");
    EXPECT_EQ(short_number(0.04), "0.04");
    EXPECT_EQ(short_number(1.44), "1.4");
    EXPECT_EQ(short_number(17.6), "18");
    EXPECT_EQ(duration_text(62), "62 ns");
    EXPECT_EQ(duration_text(1'440), "1.4 µs");
    EXPECT_EQ(duration_text(77e9), "77 s");
    EXPECT_EQ(value_text("spread_percent", 12.34), "12.3 %");
    EXPECT_EQ(value_text("peak_rss_kib", std::int64_t{2048}), "2 MiB");
    EXPECT_EQ(value_text("p50_ns", bench::Value{}), "–");
    EXPECT_EQ(value_text("ratio_to_raw", 0.9449), "0.94");
    EXPECT_EQ(value_text("user_percent", 12.34), "12 %");
    EXPECT_EQ(value_text("messages_per_second", 9'999'999.0), "9,999,999");
    EXPECT_EQ(value_text("messages_per_second", 68'175'388.0), "68.2 M");
    EXPECT_EQ(heading_of("binds_per_second"), "binds/s");
}

}  // namespace
}  // namespace berth::cli
