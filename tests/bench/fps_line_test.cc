// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/fps_line.h"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

TEST(FpsLine, ReadsWhatGraphicsProgramsPrint) {
    EXPECT_EQ(parse_fps_line("301 frames in 5.0 seconds = 60.012 FPS"), 60.012);
    EXPECT_EQ(parse_fps_line("fps: 60"), 60);
    EXPECT_EQ(parse_fps_line("FPS=59.9, 16.7 ms"), 59.9);
    EXPECT_EQ(parse_fps_line("render 144 fps"), 144);
    EXPECT_EQ(parse_fps_line("[scene] FpS \t 12.5"), 12.5);
    EXPECT_EQ(parse_fps_line("0.000 FPS"), 0);
}

TEST(FpsLine, TakesTheFirstUnitThatHasANumber) {
    EXPECT_EQ(parse_fps_line("fps report: now fps: 30"), 30);
}

TEST(FpsLine, IgnoresOtherLines) {
    EXPECT_FALSE(parse_fps_line(""));
    EXPECT_FALSE(parse_fps_line("fps"));
    EXPECT_FALSE(parse_fps_line("fps: none"));
    EXPECT_FALSE(parse_fps_line("1.2.3 FPS"));
    EXPECT_FALSE(parse_fps_line("Running synchronized to the vertical refresh."));
    EXPECT_FALSE(parse_fps_line("60 frames"));
}

}  // namespace
}  // namespace berth::bench
