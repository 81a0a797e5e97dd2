// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/virtual_clock.h"

#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/socket_helpers.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::internal {
namespace {

using namespace std::chrono_literals;
using simulated::VirtualClock;

std::chrono::nanoseconds read_clock(clockid_t clock) {
    timespec time{};
    EXPECT_EQ(calls().clock_gettime(clock, &time), 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(VirtualClock, EventsRunInTheOrderOfTheirTimeThenOfTheirSchedule) {
    VirtualClock clock;
    std::string order;
    clock.schedule(2ms, [&] { order += 'c'; });
    clock.schedule(1ms, [&] { order += 'a'; });
    clock.schedule(1ms, [&] { order += 'b'; });
    clock.run_due();
    EXPECT_EQ(order, "");
    clock.run_until(clock.now() + 5ms);
    EXPECT_EQ(order, "abc");
    EXPECT_FALSE(clock.next_event());
}

TEST(VirtualClock, AnEventSeesItsOwnTimeAndMayScheduleMore) {
    VirtualClock clock;
    const auto start = clock.now();
    std::chrono::nanoseconds first{0};
    std::chrono::nanoseconds second{0};
    clock.schedule(1ms, [&] {
        first = clock.now();
        clock.schedule(2ms, [&] { second = clock.now(); });
    });
    clock.run_until(start + 10ms);
    EXPECT_EQ(first, start + 1ms);
    EXPECT_EQ(second, start + 3ms);
    EXPECT_EQ(clock.now(), start + 10ms);
}

TEST(VirtualClock, ACancelledEventDoesNotRun) {
    VirtualClock clock;
    bool has_run = false;
    auto id = clock.schedule(1ms, [&] { has_run = true; });
    clock.cancel(id);
    clock.cancel(id);
    clock.run_until(clock.now() + 2ms);
    EXPECT_FALSE(has_run);
}

TEST(SimulationClock, StandsStillUntilSomebodyMovesIt) {
    Simulation simulation;
    const auto start = read_clock(CLOCK_MONOTONIC);
    EXPECT_EQ(start, simulation.now());
    EXPECT_EQ(read_clock(CLOCK_MONOTONIC), start);
    simulation.advance(1500ms);
    for (const clockid_t clock :
         {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME}) {
        EXPECT_EQ(read_clock(clock), start + 1500ms);
    }
}

TEST(SimulationClock, AStepOfTheWallClockMovesNothingElse) {
    Simulation simulation;
    const auto wall = read_clock(CLOCK_REALTIME);
    const auto monotonic = read_clock(CLOCK_MONOTONIC);
    simulation.step_wall_clock(-24h);
    EXPECT_EQ(read_clock(CLOCK_REALTIME), wall - 24h);
    EXPECT_EQ(read_clock(CLOCK_REALTIME_COARSE), wall - 24h);
    EXPECT_EQ(read_clock(CLOCK_MONOTONIC), monotonic);
    EXPECT_EQ(test::poll_for(-1, 0, 10ms), 0);
    EXPECT_EQ(read_clock(CLOCK_MONOTONIC), monotonic + 10ms);
}

TEST(SimulationClock, ClocksOfTheProcessAreTheKernels) {
    const Simulation simulation;
    EXPECT_GT(read_clock(CLOCK_PROCESS_CPUTIME_ID), 0ns);
    timespec time{};
    EXPECT_FAILS(EINVAL, calls().clock_gettime(12345, &time));
}

TEST(SimulationClock, CallsTakeTimeWhenTheOptionsSaySo) {
    Simulation simulation({.call_duration = 250ns});
    const auto start = simulation.now();
    test::close_all({test::open_tcp()});
    EXPECT_EQ(simulation.now(), start + 500ns);
}

TEST(SimulationClock, TheRealClockIsBackAfterwards) {
    {
        const Simulation simulation;
    }
    timespec real{};
    ::clock_gettime(CLOCK_REALTIME, &real);
    EXPECT_LT(read_clock(CLOCK_REALTIME) - std::chrono::seconds(real.tv_sec), 1min);
}

}  // namespace
}  // namespace berth::internal
