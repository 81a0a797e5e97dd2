// SPDX-License-Identifier: Apache-2.0
#pragma once

// SIGPIPE comes to the thread that has written (kernel: fs/pipe.c, send_sig() to current), so to
// block it there is enough, and no other thread and no disposition of the process is touched.

namespace berth::internal {

/// Blocks SIGPIPE in the calling thread until as many calls of release_pipe_signal().
void block_pipe_signal() noexcept;

/// The last one takes a SIGPIPE that is pending away and restores the thread's mask. `was_raised`:
/// whether there may be one.
void release_pipe_signal(bool was_raised = true) noexcept;

}  // namespace berth::internal
