// SPDX-License-Identifier: Apache-2.0
#pragma once

// Is every free port equally likely? Asked on a pattern that shows the bias of a search: 64 free
// ports in a row and 64 alone, all others taken. A port is drawn, counted and given back; the
// chi-square of the counts has 127 degrees of freedom.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace berth::bench {

constexpr unsigned kPatternHalf = 64;
constexpr const char* kPatternName = "64+64";

/// The free ports of the pattern as indices below `count`, ascending. `count` >= 1,000.
std::vector<std::uint32_t> uniformity_pattern(std::uint32_t count);

struct Uniformity {
    std::uint64_t draws = 0;
    std::uint64_t hits_min = 0;
    std::uint64_t hits_max = 0;
    double chi2 = 0;
    /// P(a uniform choice scatters at least so much). Empty with fewer than 5 draws a port on
    /// average, where the chi-square distribution does not describe the statistic.
    std::optional<double> chi2_p;
};

struct DrawLimit {
    std::uint64_t draws = 1'000'000;
    std::chrono::nanoseconds time{};
    /// Drawn also after `time`, but not after four times that.
    std::uint64_t least_draws = 10 * 2 * kPatternHalf;
};

/// Draws until a limit is met. `draw` takes an index of `pattern`, gives it back and returns it;
/// empty ends the drawing.
Uniformity measure_uniformity(std::span<const std::uint32_t> pattern, const DrawLimit& limit,
                              const std::function<std::optional<std::uint32_t>()>& draw);

}  // namespace berth::bench
