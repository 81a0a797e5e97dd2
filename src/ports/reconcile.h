// SPDX-License-Identifier: Apache-2.0
#pragma once

// Holds the table against the kernel's own list of sockets and corrects it, while others allocate.
//
//   the kernel shows it, the table says free        → kernel-held
//   kernel-held, the kernel does not show it        → free
//   of a dead process, not shown                    → to rest
//   of a dead process, shown                        → kernel-held: the socket was passed on
//   bound by a living process, not shown twice      → to rest: closed without telling the table
//   a connection's port, not shown twice            → to rest
//
// The list is old when it arrives, and it can miss a socket that lives throughout (the kernel goes
// on by counting, and others close meanwhile). So a port is given back only if its owner word is
// the same as before the list was asked for; a living process's port only when two lists, a second
// apart, missed it with the same word. What goes wrong all the same costs one refused bind or waits
// for the next time.

#include "src/ports/table_core.h"

#include <berth/address.h>
#include <berth/error.h>
#include <berth/ports.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace berth::internal {

/// Reads the namespace's range and reserved ports into the table. A table with an explicit range
/// keeps it and reads the reserved ports only, where it honours them.
/// **Errors:** as read_namespace_settings().
Result<void> refresh_allowed(TableCore& core);

/// Ports of living processes that the last list did not show. Kept in each process's own memory:
/// this is for long-lived ones that forgot a port.
class LostSockets {
public:
    static constexpr std::uint64_t kGraceMs = 1'000;

    struct Suspect {
        std::uint32_t place;  // space << 16 | port
        OwnerWord owner;
        std::uint64_t since_ms;
    };

    /// Takes over today's suspects (ascending by place; `since_ms` is filled in) and returns those
    /// that were so `kGraceMs` ago. Any thread; nothing while another one is at it.
    std::vector<Suspect> confirm(std::vector<Suspect> suspects, std::uint64_t now_ms);

private:
    std::atomic_flag is_busy_;
    std::vector<Suspect> known_;  // by whoever holds is_busy_
};

/// Everything but orphans and leases. `now_ms` is of CLOCK_MONOTONIC_COARSE.
Result<ReconcileReport> reconcile_with_kernel(TableCore& core, Protocol protocol,
                                              LostSockets& lost_sockets, std::uint64_t now_ms);

}  // namespace berth::internal
