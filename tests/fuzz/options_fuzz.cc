// SPDX-License-Identifier: Apache-2.0
// What the command line, the environment and a probe's output may hold.
#include "bench/reproducer/fps_line.h"
#include "cli/values.h"
#include "tests/fuzz/fuzz_input.h"

#include <berth/loop.h>

#include <algorithm>
#include <cmath>
#include <string_view>

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = test::text_of(data, size);
    const Result<EngineKind> kind = parse_engine_kind(text);
    test::require(!kind || to_string(*kind) == text, "an accepted engine has that name");
    const std::optional<double> frames = bench::parse_fps_line(text);
    test::require(!frames || (std::isfinite(*frames) && *frames >= 0), "a rate is a number");
    const auto numbers = cli::parse_list(
        text, [](std::string_view item) { return cli::parse_number(item, 1, 60'000); });
    test::require(!numbers || !numbers->empty(), "an accepted list has something in it");
    test::require(numbers || text.find(numbers.error()) != std::string_view::npos,
                  "what is refused is a part of the text");
    for (std::size_t i = 0; numbers && i < numbers->size(); ++i) {
        const int number = (*numbers)[i];
        test::require(number >= 1 && number <= 60'000, "a number is within its bounds");
        test::require(std::ranges::count(*numbers, number) == 1, "none is there twice");
    }
    return 0;
}
