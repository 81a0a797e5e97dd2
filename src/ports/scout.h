// SPDX-License-Identifier: Apache-2.0
#pragma once

// Questions to the kernel that would change the caller's socket are asked with a second one.

#include "src/base/socket_traits.h"

#include <berth/descriptor.h>

namespace berth::internal {

/// A new socket that the kernel treats as it treats `socket`: family, IPV6_V6ONLY, SO_BINDTODEVICE;
/// no reuse option. Not open, with errno, when there is none to be had.
Descriptor open_scout(const SocketTraits& socket, Protocol protocol) noexcept;

/// Narrows the range that the kernel chooses from; {0, 0} is the namespace's. 0 or an errno.
/// **Since kernel:** 6.3.
int set_port_range(int fd, PortRange range) noexcept;

}  // namespace berth::internal
