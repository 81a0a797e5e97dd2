// SPDX-License-Identifier: Apache-2.0
#pragma once

// The choice of a port: uniform over the ports that are free in every set that matters, at any
// occupancy, and complete: it says no only when the bitmaps say so.
//
//   1. up to 4 uniform probes of the range, fewer    almost always enough below 50 %
//      where the ports around a probe are all taken
//   2. draws by the counters of the scarcest set     constant time up to the last port
//   3. an exact draw over all words                  also with wrong counters or a narrow range
//
// Each of the three is uniform over the free ports, so their mixture is. Resting ports are the
// caller's next step.

#include "src/ports/port_set.h"

#include <berth/socket.h>

#include <array>
#include <cstdint>

namespace berth::internal {

/// What a port must satisfy.
struct Candidates {
    static constexpr unsigned kMaxSets = 20;

    std::array<const PortSet*, kMaxSets> sets;  // free in each of them; at least one
    unsigned set_count = 0;
    PortRange range;             // within it
    bool is_whole_range = true;  // the counters of the sets describe the range
    std::uint16_t excluded = 0;  // but not this port; 0: none

    void add(const PortSet& set) noexcept { sets[set_count++] = &set; }

    bool contain(std::uint16_t port) const noexcept {
        if (port == excluded || !range.contains(port)) {
            return false;
        }
        for (unsigned i = 0; i < set_count; ++i) {
            if (!sets[i]->is_free(port)) return false;
        }
        return true;
    }

    /// No port near this one is free either.
    bool is_scarce_at(std::uint16_t port) const noexcept {
        return scarcest_at(port).word(port / 64U) == 0;
    }

    /// The set with the fewest free ports, by the counters.
    const PortSet& scarcest() const noexcept;

private:
    const PortSet& scarcest_at(std::uint16_t port) const noexcept {
        for (unsigned i = 1; i < set_count; ++i) {
            if (sets[i]->word(port / 64U) == 0) return *sets[i];
        }
        return *sets[0];
    }
};

/// The common case: the whole range of one set, whose claim tells whether a port is free.
struct OneSet {
    const PortSet& set;
    PortRange range;
    static constexpr bool is_whole_range = true;

    static constexpr bool contain(std::uint16_t /*port*/) noexcept { return true; }
    bool is_scarce_at(std::uint16_t port) const noexcept { return set.word(port / 64U) == 0; }
    const PortSet& scarcest() const noexcept { return set; }
};

/// A uniform draw by the bitmaps alone; none only when no port satisfies.
/// **Cost:** about 1 ns per 64 ports and set.
MaybePort draw_exactly(const Candidates& candidates, RandomStream& random) noexcept;
MaybePort draw_exactly(const OneSet& candidates, RandomStream& random) noexcept;

/// The first port of a run of `length` (1..64) such ports that starts at a multiple of `alignment`
/// (1 or 2), drawn uniformly from all places where it fits.
MaybePort draw_run_exactly(const Candidates& candidates, unsigned length, unsigned alignment,
                           RandomStream& random) noexcept;

/// How many of this thread's choices in a row needed more than probes. While they do, a probe is a
/// wasted try, so only each sixteenth makes one. This changes how a port is found, not which.
inline constinit thread_local unsigned drawn_in_a_row = 0;

/// Draws until `claim(port)` says true, and returns that port; none when none is left.
template <class Source, class Claim>
MaybePort choose(const Source& candidates, RandomStream& random, Claim claim) noexcept {
    constexpr unsigned kProbeLimit = 4;
    constexpr unsigned kDrawLimit = 8;
    // A claim fails here only because another caller took that very port just now.
    constexpr unsigned kExactLimit = 1'000;
    const PortRange range = candidates.range;
    const bool is_probing = drawn_in_a_row % 16 == 0;
    for (unsigned i = is_probing ? 0 : kProbeLimit; i < kProbeLimit; ++i) {
        const auto port = static_cast<std::uint16_t>(range.first + random.below(range.size()));
        if (candidates.contain(port) && claim(port)) {
            drawn_in_a_row = 0;
            return port;
        }
        if (candidates.is_scarce_at(port)) break;
    }
    ++drawn_in_a_row;
    if (candidates.is_whole_range) {
        const PortSet& scarcest = candidates.scarcest();
        for (unsigned i = 0; i < kDrawLimit; ++i) {
            const auto port = scarcest.draw(random);
            if (!port) break;
            if (candidates.contain(*port) && claim(*port)) {
                return port;
            }
        }
    }
    for (unsigned i = 0; i < kExactLimit; ++i) {
        const auto port = draw_exactly(candidates, random);
        if (!port) break;
        if (claim(*port)) {
            return port;
        }
    }
    return {};
}

}  // namespace berth::internal
