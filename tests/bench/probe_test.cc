// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/probe.h"

#include "bench/harness/statistics.h"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

constexpr std::chrono::milliseconds kStep{20};

/// One window that ends when the probe has told enough, or after five seconds.
Frames window_of(Probe& probe) {
    const std::uint64_t deadline = now_ns() + 5'000'000'000;
    probe.begin_window();
    do {
        probe.wait(kStep);
    } while (!probe.has_enough() && now_ns() < deadline);
    return probe.end_window();
}

TEST(OwnProbe, CountsFrames) {
    const auto probe = start_own_probe();
    ASSERT_TRUE(probe) << probe.error().message();
    const Frames frames = window_of(**probe);
    EXPECT_GT(frames.per_second.value_or(0), 0);
    EXPECT_GT(frames.longest_ms.value_or(0), 0);
    EXPECT_FALSE((*probe)->problem());
}

TEST(CommandProbe, ReadsTheLinesAfterTheFirst) {
    const auto probe = start_command_probe(
        "echo '500 frames = 100.0 FPS'; echo warming up; echo 'fps: 60'; exec tail -f /dev/null");
    ASSERT_TRUE(probe) << probe.error().message();
    const Frames frames = window_of(**probe);
    EXPECT_EQ(frames.per_second, 60);
    EXPECT_FALSE(frames.longest_ms);
    EXPECT_FALSE((*probe)->problem());
}

TEST(CommandProbe, SaysSoWhenNothingWasParsed) {
    const auto probe = start_command_probe("echo hello; exec tail -f /dev/null");
    ASSERT_TRUE(probe) << probe.error().message();
    (*probe)->begin_window();
    (*probe)->wait(kStep);
    EXPECT_FALSE((*probe)->has_enough());
    EXPECT_FALSE((*probe)->end_window().per_second);
    ASSERT_TRUE((*probe)->problem());
    EXPECT_NE((*probe)->problem()->find("printed no frames per second"), std::string::npos);
}

TEST(CommandProbe, SaysSoWhenTheProgramHasEnded) {
    const auto probe = start_command_probe("exit 3");
    ASSERT_TRUE(probe) << probe.error().message();
    EXPECT_FALSE(window_of(**probe).per_second);
    ASSERT_TRUE((*probe)->problem());
    EXPECT_NE((*probe)->problem()->find("has ended"), std::string::npos);
}

TEST(CommandProbe, EndsAProgramThatIgnoresTheSignal) {
    const std::uint64_t start = now_ns();
    {
        const auto probe = start_command_probe("trap '' TERM; echo 1 fps; while :; do :; done");
        ASSERT_TRUE(probe) << probe.error().message();
        (*probe)->wait(std::chrono::seconds(5));
    }
    EXPECT_LT(now_ns() - start, 8'000'000'000U);
}

}  // namespace
}  // namespace berth::bench
