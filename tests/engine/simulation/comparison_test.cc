// SPDX-License-Identifier: Apache-2.0
// The same random scripts against the real kernel and the simulated one: results, errno, what
// poll() says of every descriptor after each step, and what an edge-triggered epoll reports.
#include "src/engine/simulation/simulation.h"

#include "tests/engine/simulation/comparison_player.h"
#include "tests/support/network_namespace.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/epoll.h>

#include <chrono>
#include <iostream>
#include <vector>

#include <poll.h>

namespace berth::internal {
namespace {

using test::ScriptFamily;
using test::ScriptPlayer;
using test::ScriptStep;
using Edges = std::array<std::uint32_t, ScriptPlayer::kSlotCount>;

struct Observation {
    std::string result;
    std::string levels;
    Edges edges{};

    std::string text() const {
        std::string all = result + '\n' + levels + " edges:";
        for (const std::uint32_t events : edges) all += ' ' + std::to_string(events);
        return all + '\n';
    }
};

std::vector<Observation> play_simulated(ScriptFamily family,
                                        const std::vector<ScriptStep>& script) {
    Simulation simulation({.port_range = {20000, 60000}});
    std::vector<Observation> observations;
    {
        ScriptPlayer player(family, simulation.make_epoll());
        for (const ScriptStep& step : script) {
            Observation seen;
            seen.result = player.play(step);
            seen.levels = player.levels();
            player.collect_edges(seen.edges);
            observations.push_back(seen);
        }
    }
    RC_ASSERT(simulation.open_descriptor_count() == 0U);
    return observations;
}

// TCP's late acknowledgements (40 ms after a FIN) wake sockets without news for them.
void forgive_late_edges(Edges& seen, const Edges& expected) {
    for (std::size_t slot = 0; slot < seen.size(); ++slot) {
        if (expected[slot] == 0) seen[slot] = 0;
    }
}

// The loopback device delivers within the call, unless the kernel has put the work off: then a
// moment later, so what is not yet as expected is looked at again until a deadline.
Observation play_real_step(ScriptPlayer& player, const ScriptStep& step,
                           const Observation& expected, ScriptFamily family) {
    Observation seen;
    seen.result = player.play(step);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (true) {
        seen.levels = player.levels();
        player.collect_edges(seen.edges);
        if (family == ScriptFamily::tcp) {
            forgive_late_edges(seen.edges, expected.edges);
        }
        const bool is_same = seen.levels == expected.levels && seen.edges == expected.edges;
        if (is_same || std::chrono::steady_clock::now() > deadline) {
            return seen;
        }
        ::poll(nullptr, 0, 1);
    }
}

/// What happened up to the first step that the two kernels do differently; empty: there is none.
std::string difference(ScriptFamily family, const std::vector<ScriptStep>& script) {
    const std::vector<Observation> expected = play_simulated(family, script);
    ScriptPlayer player(family, ::epoll_create1(EPOLL_CLOEXEC));
    std::string story;
    for (std::size_t index = 0; index < script.size(); ++index) {
        const Observation seen = play_real_step(player, script[index], expected[index], family);
        story += seen.text();
        if (seen.text() != expected[index].text()) {
            return story + "simulated:\n" + expected[index].text();
        }
    }
    return {};
}

void compare(ScriptFamily family, std::vector<ScriptStep> script) {
    // Nothing much happens without sockets.
    const std::vector<ScriptStep> start = {{0, 0, 1, 0}, {0, 0, 1, 0}, {0, 0, 0, 0},
                                           {2, 0, 0, 0}, {4, 0, 2, 0}, {6, 1, 0, 1}};
    script.insert(script.begin(), start.begin(), start.end());
    // The real kernel may have had other work. What it always does otherwise is a difference.
    constexpr int kTries = 3;
    std::string story;
    for (int number = 0; number < kTries; ++number) {
        story = difference(family, script);
        if (story.empty()) {
            return;
        }
    }
    RC_FAIL("the kernels differ after\n" + story);
}

void compare_in_namespace(ScriptFamily family) {
    test::in_network_namespace({.range = {20000, 60000}, .timeout_seconds = 300}, [family] {
        const bool holds = rc::check("both kernels do the same", [family] {
            const auto number = rc::gen::inRange(0U, 1'000U);
            const auto step =
                rc::gen::map(rc::gen::tuple(rc::gen::inRange(0U, 27U), number, number, number),
                             [](const std::tuple<unsigned, unsigned, unsigned, unsigned>& numbers) {
                                 return ScriptStep{std::get<0>(numbers), std::get<1>(numbers),
                                                   std::get<2>(numbers), std::get<3>(numbers)};
                             });
            compare(family, *rc::gen::container<std::vector<ScriptStep>>(step));
        });
        const auto* info = testing::UnitTest::GetInstance()->current_test_info();
        EXPECT_TRUE(holds) << "replay with RC_PARAMS=\"seed=<as printed above>\" berth_tests "
                              "--gtest_filter="
                           << info->test_suite_name() << '.' << info->name();
    });
}

TEST(SimulationComparison, TcpDoesAsTheKernel) { compare_in_namespace(ScriptFamily::tcp); }
TEST(SimulationComparison, UdpDoesAsTheKernel) { compare_in_namespace(ScriptFamily::udp); }
TEST(SimulationComparison, UnixSocketsDoAsTheKernel) { compare_in_namespace(ScriptFamily::unix); }

}  // namespace

}  // namespace berth::internal

namespace berth::test {

void showValue(const ScriptStep& step, std::ostream& out) {
    out << '{' << step.what << ", " << step.first << ", " << step.second << ", " << step.third
        << '}';
}
}  // namespace berth::test
