// SPDX-License-Identifier: Apache-2.0
#include "bench/table/uniformity.h"

#include "bench/harness/statistics.h"
#include "src/base/assert.h"

#include <algorithm>

namespace berth::bench {
namespace {

Uniformity summarize(const std::vector<std::uint64_t>& hits, std::uint64_t draws) {
    const auto [least, most] = std::ranges::minmax(hits);
    Uniformity result{.draws = draws, .hits_min = least, .hits_max = most, .chi2 = 0, .chi2_p = {}};
    const double expected = static_cast<double>(draws) / static_cast<double>(hits.size());
    if (draws == 0) {
        return result;
    }
    for (const std::uint64_t count : hits) {
        const double difference = static_cast<double>(count) - expected;
        result.chi2 += difference * difference / expected;
    }
    if (expected >= 5) {
        result.chi2_p = chi_square_p(result.chi2, static_cast<unsigned>(hits.size() - 1));
    }
    return result;
}

}  // namespace

std::vector<std::uint32_t> uniformity_pattern(std::uint32_t count) {
    BERTH_ASSERT(count >= 1'000);
    constexpr std::uint32_t kRowFirst = 100;
    constexpr std::uint32_t kAloneFirst = 300;
    const std::uint32_t step = (count - kAloneFirst) / kPatternHalf;
    std::vector<std::uint32_t> pattern;
    for (std::uint32_t index = 0; index < kPatternHalf; ++index) {
        pattern.push_back(kRowFirst + index);
    }
    for (std::uint32_t index = 0; index < kPatternHalf; ++index) {
        pattern.push_back(kAloneFirst + index * step);
    }
    return pattern;
}

Uniformity measure_uniformity(std::span<const std::uint32_t> pattern, const DrawLimit& limit,
                              const std::function<std::optional<std::uint32_t>()>& draw) {
    std::vector<std::uint64_t> hits(pattern.size());
    std::vector<std::uint32_t> place_of(pattern.back() + 1U, 0);
    for (std::uint32_t place = 0; place < pattern.size(); ++place) {
        place_of[pattern[place]] = place;
    }
    const std::uint64_t start = now_ns();
    const auto is_late = [&](std::uint64_t draws) {
        const auto time = static_cast<std::uint64_t>(limit.time.count());
        return draws % 16 == 0 && now_ns() - start > (draws < limit.least_draws ? 4 * time : time);
    };
    std::uint64_t draws = 0;
    while (draws < limit.draws && !is_late(draws)) {
        const auto index = draw();
        if (!index) {
            break;
        }
        BERTH_ASSERT(*index < place_of.size() && pattern[place_of[*index]] == *index);
        ++hits[place_of[*index]];
        ++draws;
    }
    return summarize(hits, draws);
}

}  // namespace berth::bench
