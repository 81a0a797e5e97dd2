// SPDX-License-Identifier: Apache-2.0
#pragma once

// Takes back what nobody will give back: the ports of processes that died, and ports that were lost
// because a process was killed between two instructions (orphans).

#include "src/ports/table_core.h"

#include <cstdint>
#include <functional>

namespace berth::internal {

/// A port without an owner may simply be on its way between two instructions of a living thread, so
/// it is marked with the time, and counts as lost when the mark is this old. The mark stands in the
/// table: whoever comes by later may act on it. It does not hinder the thread, see PortSpace.
constexpr std::uint64_t kOrphanGraceMs = 1'000;

/// Marks new orphans and frees old ones. Returns how many it freed. `now_ms` is of
/// CLOCK_MONOTONIC_COARSE.
std::uint32_t sweep_orphans(TableCore& core, std::uint64_t now_ms);

/// Says whether the kernel still shows a socket at a port of a space.
using IsHeld = std::function<bool(unsigned space, std::uint16_t port)>;

/// Takes back the ports of dead processes. One that the kernel still shows (its socket was
/// inherited or passed on) becomes the kernel's. Returns how many it took. **Cost:** about 50
/// microseconds for 20,000 taken ports, and four system calls for each process that holds some.
std::uint32_t sweep_dead_holders(TableCore& core, const IsHeld& is_held = nullptr);

}  // namespace berth::internal
