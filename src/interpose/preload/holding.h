// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a descriptor of this process holds, in the table and in HeldDescriptors at once.

#include "src/interpose/preload/guest.h"
#include "src/interpose/preload/socket_facts.h"

namespace berth::internal {

/// The spaces of a bind of `fd` to `local`.
Footprint footprint_of(TableCore& table, int fd, const SocketFacts& facts,
                       const Address& local) noexcept;

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
void note_bound(int fd, const SocketFacts& facts, const Address& local) noexcept;

/// The same for one whose port is not ours to release: nothing has to be asked of it again.
void note_seen(int fd) noexcept;

/// A socket that asks for a port, and holds one as far as we remember: forgets that if the socket
/// has none, so is another. **Cost:** one system call, for such a one.
void forget_if_stale(int fd) noexcept;

}  // namespace berth::internal
