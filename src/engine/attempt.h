// SPDX-License-Identifier: Apache-2.0
#pragma once

// One try at an operation by plain system calls that do not wait. Readiness engines do everything
// this way; io_uring what it has no entry for.

#include "src/engine/lent_pool.h"

#include <berth/operation.h>

namespace berth::internal {

/// The result, or -EAGAIN when the descriptor is not ready. What was done in part (a long send) is
/// noted in the operation, and the next attempt goes on from there. Sockets need no O_NONBLOCK, but
/// for accept, connect, send_file and splice.
int attempt(Operation& operation, int fd, LentPool& lent) noexcept;

/// The operation waits for POLLIN (else for POLLOUT, a poll operation for what it names).
bool waits_for_input(const Operation& operation) noexcept;

/// How a cancelled operation that has sent a part of its bytes leaves its stream.
bool has_sent_in_part(const Operation& operation) noexcept;

}  // namespace berth::internal
