// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the kernel refuse a system call, by a seccomp filter: what a container does. There is no
// way back, so it is for a child process.

#include <functional>
#include <limits>

namespace berth::test {

inline constexpr unsigned kAnyArgument = std::numeric_limits<unsigned>::max();

/// From now on this process gets `error` from system call `number`, when its second argument is
/// `argument`. Ends the process where it cannot be done.
void forbid(long number, int error, unsigned argument = kAnyArgument);

/// Runs `body` in a child process, which succeeds when that answers true.
[[nodiscard]] bool holds_in_child(const std::function<bool()>& body);

}  // namespace berth::test
