// SPDX-License-Identifier: Apache-2.0
#include "bench/guest/guest.h"
#include "bench/reproducer/allocators.h"
#include "bench/reproducer/run_scenario.h"
#include "bench/reproducer/shared_area.h"
#include "tests/support/network_namespace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <sys/wait.h>
#include <unistd.h>

namespace berth::bench {
namespace {

// ┌ own network namespace, 400 ports ───────────────────────────┐
// │  holder (300 ports)   4 workers   probe        driver        │
// └──────────────────────────────────────────────────────────────┘
constexpr PortRange kRange = {40000, 40399};

class QuietReporter final : public Reporter {
public:
    void row(Row) override {}
    void progress(double, std::string_view) override {}
    void note(std::string_view text, bool) override { notes.emplace_back(text); }
    bool is_interrupted() const override { return false; }

    std::vector<std::string> notes;
};

Environment test_environment() {
    Environment environment;
    environment.range = kRange;
    environment.descriptor_limit = 1'024;
    return environment;
}

Measurement run(const Scenario& scenario, double during = 0.2) {
    const RunTimes times{.before = 0.02, .warm_up = 0.05, .during = during, .after = 0.02};
    const auto probe = start_own_probe();
    EXPECT_TRUE(probe);
    const QuietReporter reporter;
    const auto result = run_scenario(scenario, times, 1, test_environment(), **probe, reporter);
    EXPECT_TRUE(result) << (result ? "" : result.error().message());
    return result && *result ? **result : Measurement{};
}

/// In longer and longer windows until `is_enough`: on a busy machine the workers may not have had
/// their turn before.
Measurement run_until(const Scenario& scenario, bool (*is_enough)(const Measurement&)) {
    double during = 0.2;
    Measurement result = run(scenario, during);
    while (!is_enough(result) && during < 10) {
        during *= 4;
        result = run(scenario, during);
    }
    return result;
}

Scenario paced(Protocol protocol, const std::string& allocator) {
    return {.protocol = protocol,
            .family = Family::ipv4,
            .allocator = allocator,
            .mode = allocator == "berth" ? WorkerMode::threads : WorkerMode::processes,
            .workers = 4,
            .rate = 400,
            .held_port_count = 300};
}

void in_namespace(const std::function<void()>& body) {
    test::NamespaceOptions options;
    options.range = kRange;
    test::in_network_namespace(options, body);
}

TEST(Reproducer, MeetsAModestDemandWithEveryAllocator) {
    in_namespace([] {
        for (const char* const allocator : {"kernel", "berth-shared", "berth"}) {
            const Measurement result =
                run_until(paced(Protocol::udp, allocator),
                          [](const Measurement& so_far) { return so_far.succeeded > 0; });
            EXPECT_GT(result.succeeded, 0U) << allocator;
            EXPECT_EQ(result.failed, 0U) << allocator;
            EXPECT_EQ(result.without_socket, 0U) << allocator;
            EXPECT_GT(result.p50_ns, 0) << allocator;
            EXPECT_GE(result.max_ns, result.p50_ns) << allocator;
            EXPECT_GT(result.before.per_second.value_or(0), 0) << allocator;
            EXPECT_GE(result.occupancy_percent, 75) << allocator;
            EXPECT_LE(result.occupancy_percent, 77) << allocator;
        }
    });
}

TEST(Reproducer, WithoutALimitTheWorkersFillTheRangeAndGoOn) {
    in_namespace([] {
        for (const char* const allocator : {"kernel", "berth-shared"}) {
            Scenario scenario = paced(Protocol::udp, allocator);
            scenario.rate = 0;
            scenario.workers = 16;
            const Measurement result = run_until(scenario, [](const Measurement& so_far) {
                return so_far.succeeded > 0 && so_far.failed > 0;
            });
            EXPECT_GT(result.succeeded, 0U) << allocator;
            EXPECT_GT(result.failed, 0U) << allocator;
            EXPECT_GT(result.occupancy_percent, 95) << allocator;
        }
    });
}

TEST(Reproducer, TheSpinningControlBindsNothing) {
    in_namespace([] {
        const Measurement result = run(paced(Protocol::tcp, "spin"));
        EXPECT_EQ(result.succeeded, 0U);
        EXPECT_GT(result.during.per_second.value_or(-1), -1);
    });
}

TEST(Reproducer, EqualDemandKeepsRoomForEveryWorker) {
    QuietReporter reporter;
    Selection selection;
    selection.workers = 8;
    const auto plan = plan_reproducer(selection, test_environment(), reporter);
    ASSERT_TRUE(plan) << plan.error().message();
    const auto with_the_command = std::ranges::count_if(reproducer_allocators(), is_guest);
    EXPECT_EQ(plan->scenarios.size(),
              2 * (reproducer_allocators().size() - static_cast<std::size_t>(with_the_command)));
    for (const Scenario& scenario : plan->scenarios) {
        EXPECT_LE(scenario.held_port_count + 2 * 8, kRange.size());
        EXPECT_EQ(scenario.rate, scenario.protocol == Protocol::udp ? 5'000 : 1'000);
    }
}

TEST(Reproducer, ATableOfOneProcessIsNotRunInMany) {
    QuietReporter reporter;
    Selection selection;
    selection.mode = WorkerMode::processes;
    const auto plan = plan_reproducer(selection, test_environment(), reporter);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(std::ranges::none_of(
        plan->scenarios, [](const Scenario& scenario) { return scenario.allocator == "berth"; }));
    EXPECT_FALSE(reporter.notes.empty());

    selection.allocators = {"berth"};
    const auto refused = plan_reproducer(selection, test_environment(), reporter);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::invalid_argument);
}

TEST(SharedArea, TheFirstErrorOfAProcessReachesTheDriver) {
    auto area = SharedArea::create(1);
    ASSERT_TRUE(area);
    EXPECT_FALSE(area->error());
    const pid_t child = ::fork();
    if (child == 0) {
        area->fail(Error(Errc::permission_denied, "bind", "first"));
        area->fail(Error(Errc::system, "bind", "second"));
        ::_exit(0);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ASSERT_TRUE(area->error());
    EXPECT_EQ(area->error()->code(), Errc::permission_denied);
    EXPECT_EQ(area->error()->subject(), "first");
}

}  // namespace
}  // namespace berth::bench
