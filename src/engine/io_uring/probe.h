// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether io_uring can be had here, and what it offers. Version numbers are not asked: containers
// forbid it, distributions change it, and some kernels had it broken. Each feature is used once.

#include "src/engine/io_uring/ring.h"

#include <berth/error.h>

namespace berth::internal {

/// Needs a few system calls the first time; a success is remembered by the process.
/// **Errors:** unsupported, with the reason and what to do; descriptors_exhausted; out_of_memory.
Result<RingFeatures> probe_io_uring();

/// Makes the next probe_io_uring() look again. For tests.
void forget_io_uring_probe() noexcept;

/// Ring::create(), with errors as those of probe_io_uring().
Result<Ring> create_ring(const RingSizes& sizes, const RingFeatures& features);

}  // namespace berth::internal
