// SPDX-License-Identifier: Apache-2.0
// What the command line, the environment and a probe's output may hold.
#include "bench/reproducer/fps_line.h"
#include "tests/fuzz/fuzz_input.h"

#include <berth/loop.h>

#include <cmath>

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = test::text_of(data, size);
    const Result<EngineKind> kind = parse_engine_kind(text);
    test::require(!kind || to_string(*kind) == text, "an accepted engine has that name");
    const std::optional<double> frames = bench::parse_fps_line(text);
    test::require(!frames || (std::isfinite(*frames) && *frames >= 0), "a rate is a number");
    return 0;
}
