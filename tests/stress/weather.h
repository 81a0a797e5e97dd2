// SPDX-License-Identifier: Apache-2.0
#pragma once

// What goes wrong in a scenario: the world as it is made, and faults that change while it runs.

#include "tests/stress/world.h"

namespace berth::test::stress {

/// Buffers, latency, limits and the like, by the dice.
internal::SimulationOptions choose_options(Dice& dice, std::uint64_t seed);
/// Tells the world what its options have made possible.
void announce(World& world, const internal::SimulationOptions& options);
/// Other faults from now on, or none.
void change_faults(World& world);
/// Calls that fail at once, some time soon.
void plan_failures(World& world);
/// Latency, the wall clock.
void change_surroundings(World& world);

}  // namespace berth::test::stress
