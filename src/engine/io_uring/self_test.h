// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the engine builds on and some kernels had wrong: multishot receive from a ring of buffers,
// and sends that tell only of failure. Tried on a socket pair before io_uring is said to work.

#include "src/engine/io_uring/ring.h"

#include <berth/error.h>

namespace berth::internal {

/// `ring` is started and empty, and is so again afterwards.
/// **Errors:** unsupported (the message says what does not work), descriptors_exhausted,
/// out_of_memory.
Result<void> test_ring(Ring& ring);

}  // namespace berth::internal
