// SPDX-License-Identifier: Apache-2.0
#include "src/ports/table_core.h"

#include "src/ports/lease_book.h"

#include <algorithm>
#include <bit>

namespace berth::internal {
namespace {

// Calls `visit(index)` for each space in the mask.
template <class Visit>
void for_each_space(std::uint32_t spaces, Visit visit) {
    for (; spaces != 0; spaces &= spaces - 1) {
        visit(static_cast<unsigned>(std::countr_zero(spaces)));
    }
}

std::uint32_t taken_spaces(const Footprint& footprint) noexcept {
    std::uint32_t spaces = 0;
    for (unsigned i = 0; i < footprint.take_count; ++i) spaces |= space_bit(footprint.takes[i]);
    return spaces;
}

bool is_dead_process(OwnerWord word) noexcept {
    return kind_of(word) == OwnerKind::process && !is_alive(process_of(word));
}

}  // namespace

TableCore::TableCore(TableLayout& layout) noexcept
    : layout_(layout),
      epoch_ms_((layout.header.constants.rest_period_ms + RestingPorts::kEpochsOfRest - 1) /
                RestingPorts::kEpochsOfRest) {}

AllowedPorts TableCore::allowed() const noexcept {
    const PortRange now = range();
    return {header().allowed, now.first / 64U, now.last / 64U};
}

RestRule TableCore::rest_rule() const noexcept {
    return {allowed(), has_rest() ? coarse_now_ms() / epoch_ms_ : 0, has_rest()};
}

Candidates TableCore::candidates_for(const Footprint& footprint, const Ask& ask) const noexcept {
    Candidates candidates;
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        // Connections share their ports: not being connected is no condition.
        if (footprint.takes[i] / 2 != kConnectedSpace / 2) {
            candidates.add(space(footprint.takes[i]).free);
        }
    }
    for_each_space(footprint.checks & used_spaces(),
                   [&](unsigned index) { candidates.add(space(index).free); });
    if (ask.also_free_in != nullptr) {
        candidates.add(*ask.also_free_in);
    }
    if (candidates.set_count == 0) {
        candidates.add(space(kWildcardSpace).free);  // nobody has bound anything yet
    }
    const PortRange whole = range();
    candidates.range = ask.range.is_valid() ? ask.range : whole;
    candidates.is_whole_range = candidates.range == whole;
    candidates.excluded = ask.excluded;
    return candidates;
}

MaybePort TableCore::take(const Footprint& footprint, const Ask& ask, OwnerWord owner) noexcept {
    const bool is_simple = (footprint.checks & used_spaces()) == 0 && !ask.range.is_valid() &&
                           ask.excluded == 0 && ask.also_free_in == nullptr;
    const bool is_from_one = is_simple && footprint.take_count == 1;
    const auto claim_here = [&](std::uint16_t port) { return claim(footprint, port, owner); };
    if (is_simple && !is_from_one) {
        if (const MaybePort port = draw_from_both(footprint, claim_here)) {
            return port;
        }
    }
    return draw_until_rests_are_used(footprint, ask.search, [&] {
        return is_from_one ? take_from_one(footprint, owner) : draw_now(footprint, ask, claim_here);
    });
}

// No other space is in use: the claim alone decides, as long as that stays so.
MaybePort TableCore::take_from_one(const Footprint& footprint, OwnerWord owner) noexcept {
    note_use(footprint.takes[0]);
    PortSpace& one = space(footprint.takes[0]);
    return choose(OneSet{one.free, range()}, thread_random(), [&](std::uint16_t port) {
        if (!one.claim(port, owner)) {
            return false;
        }
        if (!overlaps(footprint, port)) {
            return true;
        }
        one.unclaim(port, owner, allowed());
        return false;
    });
}

// Dual-stack sockets: most often the two sets are nearly the same, and a draw from one of them is
// free in the other. Uniform over the ports free in both, because the others are rejected.
template <class Claim>
MaybePort TableCore::draw_from_both(const Footprint& footprint, Claim claim) noexcept {
    constexpr unsigned kDrawLimit = 4;
    for (unsigned i = 0; i < kDrawLimit; ++i) {
        const MaybePort port = space(footprint.takes[i % 2]).free.draw(thread_random());
        if (port && claim(*port)) {
            return port;
        }
    }
    return {};
}

MaybePort TableCore::draw_run(const Footprint& footprint, unsigned length,
                              unsigned alignment) noexcept {
    return draw_until_rests_are_used(footprint, RestSearch::thorough, [&] {
        return draw_run_exactly(candidates_for(footprint, {}), length, alignment, thread_random());
    });
}

bool TableCore::overlaps(const Footprint& footprint, std::uint16_t port) const noexcept {
    std::uint32_t spaces = footprint.checks;
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        // An address may have got a space since the footprint was made.
        if (footprint.takes[i] / 2 == kWildcardSpace / 2) {
            spaces |= header().address_spaces[footprint.takes[i]].load();
        }
    }
    for (spaces &= used_spaces(); spaces != 0; spaces &= spaces - 1) {
        const PortSpace& each = space(static_cast<unsigned>(std::countr_zero(spaces)));
        // The bit of a port that has an owner may be set in vain, see RestingPorts.
        if (!each.free.is_free(port) || !is_nobodys(each.owner(port))) {
            return true;
        }
    }
    return false;
}

bool TableCore::is_promised(std::uint32_t spaces, std::uint16_t port,
                            OwnerWord except) const noexcept {
    bool found = false;
    for_each_space(spaces & used_spaces(), [&](unsigned index) {
        const OwnerWord owner = space(index).owner(port);
        const bool is_unbound = kind_of(owner) == OwnerKind::process && (owner & kBoundFlag) == 0 &&
                                without_claim(owner) != except &&
                                (without_claim(owner) == own_word() || is_alive(process_of(owner)));
        const bool is_leased =
            kind_of(owner) == OwnerKind::lease && is_valid_lease(header(), owner);
        found = found || is_unbound || is_leased;
    });
    return found;
}

bool TableCore::claim(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept {
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        note_use(footprint.takes[i]);
        if (!space(footprint.takes[i]).claim(port, owner)) {
            for (unsigned undo = 0; undo < i; ++undo) {
                space(footprint.takes[undo]).unclaim(port, owner, allowed());
            }
            return false;
        }
    }
    if (overlaps(footprint, port)) {
        unclaim(footprint, port, owner);
        return false;
    }
    return true;
}

bool TableCore::claim_exactly(const Footprint& footprint, std::uint16_t port,
                              OwnerWord owner) noexcept {
    bool was_kernels = false;
    return claim_exactly(footprint, port, owner, was_kernels);
}

bool TableCore::claim_exactly(const Footprint& footprint, std::uint16_t port, OwnerWord owner,
                              bool& was_kernels) noexcept {
    was_kernels = false;
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        note_use(footprint.takes[i]);
        bool was_kernels_here = false;
        if (!space(footprint.takes[i])
                 .claim_exactly(port, owner, is_dead_process, was_kernels_here)) {
            Footprint claimed = footprint;
            claimed.take_count = i;
            give_up_exactly(claimed, port, owner, was_kernels);
            return false;
        }
        was_kernels = was_kernels || was_kernels_here;
    }
    return true;
}

void TableCore::give_up_exactly(const Footprint& footprint, std::uint16_t port, OwnerWord owner,
                                bool was_kernels) noexcept {
    if (!was_kernels) {
        release(footprint, port, owner);
        return;
    }
    const OwnerWord kernel = kernel_word(next_stamp());
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        space(footprint.takes[i]).replace_owner(port, owner, kernel);
    }
}

void TableCore::release(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept {
    const RestRule rule = rest_rule();
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        space(footprint.takes[i]).release(port, owner, rule);
    }
}

void TableCore::unclaim(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept {
    const AllowedPorts ports = allowed();
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        space(footprint.takes[i]).unclaim(port, owner, ports);
    }
}

void TableCore::mark_kernel_held(const Footprint& footprint, std::uint16_t port,
                                 OwnerWord owner) noexcept {
    header().counters.refused.fetch_add(1, std::memory_order_relaxed);
    const OwnerWord kernel = kernel_word(next_stamp());
    for (unsigned i = 0; i < footprint.take_count; ++i) {
        space(footprint.takes[i]).replace_owner(port, owner, kernel);
    }
}

std::uint32_t TableCore::pour_count(const Footprint& footprint) const noexcept {
    std::uint32_t count = 0;
    for_each_space(all_spaces(footprint) & used_spaces(),
                   [&](unsigned index) { count += space(index).resting.pour_count(); });
    return count;
}

bool TableCore::free_resting(const Footprint& footprint, RestSearch search) noexcept {
    if (!has_rest()) {
        return false;
    }
    const RestRule rule = rest_rule();
    std::uint32_t spaces = taken_spaces(footprint) | (footprint.checks & used_spaces());
    unsigned freed = 0;
    for_each_space(spaces, [&](unsigned index) {
        PortSpace& each = space(index);
        freed += each.end_rests(rule);
    });
    if (freed > 0) {
        return true;
    }
    for_each_space(spaces,
                   [&](unsigned index) { freed += space(index).end_oldest_rests(rule, search); });
    if (freed > 0) {
        header().counters.early_rests.fetch_add(1, std::memory_order_relaxed);
    }
    return freed > 0;
}

void TableCore::add_connection(Family family, std::uint16_t port) noexcept {
    const unsigned index = kConnectedSpace + static_cast<unsigned>(family);
    note_use(index);
    PortSpace& connected = space(index);
    const std::uint64_t stamp = next_stamp();
    if (!connected.free.claim(port)) {
        connected.resting.remove(port);
    }
    OwnerWord word = connected.owner(port);
    while (true) {
        const std::uint32_t count =
            kind_of(word) == OwnerKind::connected ? connection_count_of(word) + 1 : 1;
        if (connected.replace_owner(port, word, connected_word(count, stamp))) break;
        word = connected.owner(port);
    }
}

void TableCore::remove_connection(Family family, std::uint16_t port) noexcept {
    PortSpace& connected = space(kConnectedSpace + static_cast<unsigned>(family));
    const std::uint64_t stamp = next_stamp();
    OwnerWord word = connected.owner(port);
    while (kind_of(word) == OwnerKind::connected) {
        const std::uint32_t count = connection_count_of(word);
        if (count <= 1) {
            if (connected.release(port, word, rest_rule())) break;
        } else if (connected.replace_owner(port, word, connected_word(count - 1, stamp))) {
            break;
        }
        word = connected.owner(port);
    }
}

void TableCore::set_allowed(PortRange new_range, const PortBits& new_allowed) noexcept {
    const PortRange known = known_range();
    const PortRange wider = known.is_valid() ? PortRange{std::min(known.first, new_range.first),
                                                         std::max(known.last, new_range.last)}
                                             : new_range;
    header().known_range.store(pack(wider), std::memory_order_release);
    header().range.store(pack(new_range), std::memory_order_release);
    for (unsigned i = 0; i < kWordCount; ++i) {
        const std::uint64_t wanted = new_allowed[i].load(std::memory_order_relaxed);
        const std::uint64_t before =
            header().allowed[i].exchange(wanted, std::memory_order_acq_rel);
        if (wanted == before) {
            continue;
        }
        for (unsigned index = 0; index < kSpaceCount; ++index) {
            space(index).free.claim_word(i, before & ~wanted);
            free_new_ports(index, i, wanted & ~before);
        }
    }
}

void TableCore::free_new_ports(unsigned index, unsigned word, std::uint64_t ports) noexcept {
    PortSpace& each = space(index);
    if ((used_spaces() & space_bit(index)) == 0) {
        each.free.release_word(word, ports);
        return;
    }
    for (; ports != 0; ports &= ports - 1) {
        const auto port =
            static_cast<std::uint16_t>(word * 64 + static_cast<unsigned>(std::countr_zero(ports)));
        if (is_nobodys(each.owner(port))) {
            each.resting.remove(port);
            each.free.release(port);
        }
    }
}

}  // namespace berth::internal
