// SPDX-License-Identifier: Apache-2.0
// Each workload for event loops from its selection to its rows, with raw programs and tiny numbers.
#include "bench/harness/loopback.h"
#include "tests/bench/noting_reporter.h"
#include "tests/support/network_namespace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace berth::bench {
namespace {

constexpr PortRange kRange = {40'000, 40'499};

Environment test_environment() {
    Environment environment;
    environment.range = kRange;
    environment.descriptor_limit = 1'024;
    return environment;
}

Selection tiny() {
    Selection selection;
    selection.programs = {"raw"};
    selection.engines = {"epoll", "poll"};
    selection.connections = {3};
    selection.idle = {4};
    selection.occupancies_percent = {0};
    selection.repeats = 1;
    return selection;
}

const Value* find(const Row& row, std::string_view key) {
    for (const auto* const entries : {&row.variables, &row.figures}) {
        const auto found = std::ranges::find(
            *entries, key, [](const auto& entry) { return std::string_view(entry.first); });
        if (found != entries->end()) {
            return &found->second;
        }
    }
    return nullptr;
}

double number(const Row& row, std::string_view key) {
    const Value* const value = find(row, key);
    if (value == nullptr) {
        ADD_FAILURE() << "no " << key;
        return -1;
    }
    if (const auto* const whole = std::get_if<std::int64_t>(value)) {
        return static_cast<double>(*whole);
    }
    const auto* const real = std::get_if<double>(value);
    return real != nullptr ? *real : -1;
}

/// The CPU time by who ran, where there were ticks to tell: for a million of what costs so much.
void expect_cpu_shares(const Row& row) {
    const Value* const user_ms = find(row, "user_ms");
    if (user_ms == nullptr || row.bench == "transfer" ||
        !std::holds_alternative<double>(*user_ms)) {
        return;
    }
    const std::string_view cost =
        row.bench == "churn" ? "cpu_ns_per_connection" : "cpu_ns_per_message";
    EXPECT_NEAR(number(row, "user_ms") + number(row, "system_ms"), number(row, cost), 0.01);
    EXPECT_NEAR(number(row, "user_ms"), number(row, cost) * number(row, "user_percent") / 100,
                0.01);
}

using Keys = std::initializer_list<std::string_view>;

/// `others` are there too, but may be 0, or nothing where so short a run has nothing to tell.
void expect_rows(Workload run, const Selection& selection, std::size_t row_count,
                 Keys positive_figures, Keys others) {
    test::NamespaceOptions options;
    options.range = kRange;
    test::in_network_namespace(options, [&] {
        NotingReporter reporter;
        const Result<void> done = run(selection, test_environment(), reporter);
        ASSERT_TRUE(done) << done.error().message();
        EXPECT_TRUE(reporter.notes.empty()) << reporter.notes.front();
        ASSERT_EQ(reporter.rows.size(), row_count);
        for (const Row& row : reporter.rows) {
            EXPECT_EQ(std::get<std::string>(*find(row, "program")), "raw");
            expect_cpu_shares(row);
            for (const std::string_view figure : positive_figures) {
                EXPECT_GT(number(row, figure), 0) << figure;
            }
            for (const std::string_view key : others) {
                EXPECT_NE(find(row, key), nullptr) << key;
            }
            EXPECT_NE(find(row, "spread_percent"), nullptr);
        }
    });
}

TEST(LoopBenches, Transfer) {
    expect_rows(run_transfer, tiny(), 2,
                {"real_ms", "cpu_ms", "syscalls", "ratio_to_raw", "ratio_to_epoll", "peak_rss_kib"},
                {"user_ms", "system_ms", "loop_ms", "allocations"});
}

TEST(LoopBenches, Echo) {
    expect_rows(
        run_echo, tiny(), 2,
        {"cpu_ns_per_message", "messages_per_second", "ratio_to_raw", "ratio_to_epoll",
         "syscalls_per_message", "peak_rss_kib"},
        {"p50_ns", "p99_ns", "load_per_second", "user_ms", "system_ms", "allocations_per_message"});
}

TEST(LoopBenches, Idle) {
    expect_rows(
        run_idle, tiny(), 2,
        {"cpu_ns_per_message", "ratio_to_raw", "idle", "syscalls_per_message", "peak_rss_kib"},
        {"p50_ns", "p99_ns", "user_ms", "system_ms", "allocations_per_message"});
}

TEST(LoopBenches, Churn) {
    // Accepting once, connecting with the kernel's ports and with the table's.
    expect_rows(run_churn, tiny(), 6,
                {"cpu_ns_per_connection", "connections_per_second", "ratio_to_raw", "peak_rss_kib"},
                {"user_ms", "system_ms"});
}

TEST(LoopBenches, Datagrams) {
    Selection selection = tiny();
    selection.engines = {"epoll"};
    expect_rows(run_datagrams, selection, 6,
                {"cpu_ns_per_message", "messages_per_second", "ratio_to_raw",
                 "syscalls_per_message", "peak_rss_kib"},
                {"user_ms", "system_ms", "allocations_per_message"});
}

TEST(LoopBenches, Wake) {
    expect_rows(
        run_wake, tiny(), 2,
        {"p50_ns", "p99_ns", "post_ns", "messages_per_second", "ratio_to_raw", "peak_rss_kib"},
        {"user_ms", "system_ms", "syscalls_per_message", "allocations_per_message"});
}

TEST(LoopBenches, Memory) {
    expect_rows(run_memory, tiny(), 2, {"private_kib", "peak_rss_kib"}, {"bytes_per_connection"});
}

TEST(LoopBenches, ConnectionsBeyondTheHostAreNoted) {
    Selection selection = tiny();
    selection.connections = {3, 5'000};
    test::in_network_namespace([&] {
        NotingReporter reporter;
        ASSERT_TRUE(run_memory(selection, test_environment(), reporter));
        EXPECT_EQ(reporter.rows.size(), 2U);
        ASSERT_EQ(reporter.notes.size(), 1U);
        EXPECT_NE(reporter.notes[0].find("5000"), std::string::npos) << reporter.notes[0];
        EXPECT_TRUE(reporter.was_partial);
    });
}

}  // namespace
}  // namespace berth::bench
