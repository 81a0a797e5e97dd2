// SPDX-License-Identifier: Apache-2.0
#pragma once

// Holds the table against the kernel's own list of sockets and corrects it, while others allocate.
//
//   the kernel shows it, the table says free        → kernel-held
//   kernel-held, the kernel does not show it        → free
//   bound by a living process, not shown            → to rest: closed without telling the table
//   a connection's port, not shown                  → to rest
//
// The list is old when it arrives. So a port is given back only if its owner word is the same as
// before the list was asked for (every change of a kernel-held or connected word changes its
// stamp), and only from a list that the kernel calls consistent. What goes wrong all the same costs
// one refused bind or waits for the next time.

#include "src/ports/table_core.h"

#include <berth/address.h>
#include <berth/error.h>
#include <berth/ports.h>

namespace berth::internal {

/// Reads the namespace's range and reserved ports into the table. A table with an explicit range
/// keeps it and reads the reserved ports only, where it honours them.
/// **Errors:** as read_namespace_settings().
Result<void> refresh_allowed(TableCore& core);

/// Everything but the sweep; `ports_reclaimed` counts lost sockets only.
Result<ReconcileReport> reconcile_with_kernel(TableCore& core, Protocol protocol);

}  // namespace berth::internal
