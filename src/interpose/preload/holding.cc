// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/holding.h"

namespace berth::internal {
namespace {

Footprint footprint_in(const Held& held) noexcept {
    Footprint footprint;
    footprint.takes = {held.space, held.other_space};
    footprint.take_count = held.other_space == Held::kNoSpace ? 1 : 2;
    return footprint;
}

OwnerWord owner_of(const Held& held) noexcept {
    return own_word() | kBoundFlag | static_cast<OwnerWord>(held.tag) << ProcessIdentity::kBits;
}

// Two sockets have this port: whose close() comes first must not free it.
void leave_to_kernel(TableCore& table, const Footprint& footprint, std::uint16_t port) noexcept {
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        PortSpace& space = table.space(footprint.takes[i]);
        const OwnerWord owner = space.owner(port);
        if (kind_of(owner) == OwnerKind::process && (owner & kBoundFlag) != 0) {
            space.replace_owner(port, owner, kernel_word(table.next_stamp()));
        }
    }
}

}  // namespace

Footprint footprint_of(TableCore& table, int fd, const SocketFacts& facts,
                       const Address& local) noexcept {
    const bool is_v6 = local.family() == Family::ipv6;
    if (!local.is_wildcard() || local.is_v4_mapped()) {
        return footprint_of_bind(table.header(), local.unmapped(), false);
    }
    const bool has_v4 = !is_v6 || !is_v6_only(fd, facts);
    return footprint_of_wildcard(table.header(), has_v4, is_v6);
}

void hold(int fd, const Held& held) noexcept {
    guest.process->held_count.fetch_add(1, std::memory_order_relaxed);
    if (guest.process->pid.load(std::memory_order_relaxed) == 0) {
        is_own_memory();  // remembers which process this is, while it certainly is the one
    }
    if (const Held before = guest.held.put(fd, held); before.has_port_of_ours()) {
        release(before);
    }
}

void hold_bound(int fd, Protocol protocol, const Footprint& footprint, std::uint16_t port,
                OwnerWord owner) noexcept {
    Held held;
    held.kind = HeldKind::bound;
    held.protocol = protocol;
    held.port = port;
    held.space = static_cast<std::uint8_t>(footprint.takes[0]);
    if (footprint.take_count == 2) {
        held.other_space = static_cast<std::uint8_t>(footprint.takes[1]);
    }
    held.tag = static_cast<std::uint16_t>(owner >> ProcessIdentity::kBits & ((1U << kTagBits) - 1));
    hold(fd, held);
}

void release(const Held& held) noexcept {
    if (!held.has_port_of_ours()) {
        return;
    }
    guest.process->held_count.fetch_sub(1, std::memory_order_relaxed);
    TableCore& table = guest.table(held.protocol);
    if (held.kind == HeldKind::bound) {
        table.release(footprint_in(held), held.port, owner_of(held));
        return;
    }
    table.remove_connection(held.family, held.port);
    if (auto* slot = guest.page->destinations.get({held.slot, held.generation})) {
        slot->note_closed(held.port);
    }
}

void let_go(int fd) noexcept { release(guest.held.take(fd)); }

void note_bound(int fd, const SocketFacts& facts, const Address& local) noexcept {
    TableCore& table = guest.table(facts.protocol);
    const std::uint16_t port = local.port();
    if (!table.range().contains(port)) {
        note_seen(fd);
        return;
    }
    const Footprint footprint = footprint_of(table, fd, facts, local);
    const OwnerWord owner = claim_word() | kBoundFlag;
    if (table.claim_exactly(footprint, port, owner)) {
        hold_bound(fd, facts.protocol, footprint, port, owner);
        return;
    }
    leave_to_kernel(table, footprint, port);
    note_seen(fd);
}

void note_seen(int fd) noexcept {
    Held seen;
    seen.kind = HeldKind::seen;
    if (const Held before = guest.held.put(fd, seen); before.has_port_of_ours()) {
        release(before);
    }
}

void forget_if_stale(int fd) noexcept {
    const HeldKind kind = guest.held.get(fd).kind;
    if (kind == HeldKind::nothing || kind == HeldKind::fresh) {
        return;
    }
    const auto local = local_address_of(fd);
    if (local && local->port() == 0) {
        let_go(fd);
    }
}

}  // namespace berth::internal
