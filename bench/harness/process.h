// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helper processes of a workload. They never outlive it: the kernel kills them with their parent.

#include <berth/error.h>

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>

namespace berth::bench {

/// fork() for a helper: the child (which gets 0) dies with its parent and leaves Ctrl-C to it.
Result<pid_t> fork_helper();

/// In a helper: closes what it has inherited and does not need, all but the standard ones and
/// `kept`. What it opens then has the numbers that it would have in a program of its own.
void close_inherited(std::initializer_list<int> kept) noexcept;

/// Waits until a helper has ended by itself.
void wait_for_helper(pid_t helper) noexcept;

/// Kills a helper and waits until it is gone, sockets included.
void end_helper(pid_t helper) noexcept;

/// The most memory this process has had resident, in KiB.
std::int64_t peak_rss_kib() noexcept;

}  // namespace berth::bench
