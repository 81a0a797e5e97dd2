// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a descriptor of this process holds, in the table and in HeldDescriptors at once.

#include "src/interpose/preload/guest.h"
#include "src/interpose/preload/socket_facts.h"

namespace berth::internal {

/// The spaces of a bind of `fd` to `local`. **Cost:** one system call for an IPv6 wildcard.
Footprint footprint_of(TableCore& table, int fd, const Address& local) noexcept;

/// A claimed port is the descriptor's from now on. What the descriptor held before, which somebody
/// must have closed behind our back, is released.
void hold_bound(int fd, Protocol protocol, const Footprint& footprint, std::uint16_t port,
                OwnerWord owner) noexcept;
void hold(int fd, const Held& held) noexcept;

/// Gives back what was taken out of HeldDescriptors, after its descriptor has been closed.
void release(const Held& held) noexcept;
/// The descriptor has no port of ours any more.
void let_go(int fd) noexcept;

/// A socket that has got its port without the table: claims it, or, when another socket has it too,
/// leaves it to the kernel's list, so that no close() of one gives it away from under the others.
void note_bound(int fd, Protocol protocol, const Address& local) noexcept;

/// Of a descriptor that something is remembered of: that it is still the same socket, as far as a
/// socket that asks for a port can tell. Forgets it otherwise. **Cost:** one system call.
void forget_if_stale(int fd) noexcept;

}  // namespace berth::internal
