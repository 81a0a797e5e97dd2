// SPDX-License-Identifier: Apache-2.0
#pragma once

// The table without system calls: takes, releases and hands over ports in the spaces that a
// footprint names. Any thread of any process that maps the table may call any of it; nothing here
// waits.

#include "src/base/clock.h"
#include "src/ports/choice.h"
#include "src/ports/footprint.h"
#include "src/ports/table_layout.h"

#include <cstdint>

namespace berth::internal {

/// Which ports an allocation may choose from, beside what is free.
struct Ask {
    PortRange range = {0, 0};               // {0, 0}: the table's
    std::uint16_t excluded = 0;             // a port not to choose; 0: none
    const PortSet* also_free_in = nullptr;  // one more set it must be free in
    RestSearch search = RestSearch::quick;  // for resting ports, when none is free
};

class TableCore {
public:
    explicit TableCore(TableLayout& layout) noexcept;

    TableHeader& header() const noexcept { return layout_.header; }
    PortSpace& space(unsigned index) const noexcept { return layout_.spaces[index]; }
    /// Always valid, also when the table's memory is not.
    PortRange range() const noexcept {
        const PortRange range = unpack_range(header().range.load(std::memory_order_acquire));
        return range.is_valid() ? range : PortRange{1, 1};
    }
    /// Wider than range() when that has changed: leases may have ports anywhere in it.
    PortRange known_range() const noexcept {
        return unpack_range(header().known_range.load(std::memory_order_acquire));
    }
    AllowedPorts allowed() const noexcept;
    RestRule rest_rule() const noexcept;
    bool has_rest() const noexcept { return epoch_ms_ != 0; }
    std::uint64_t next_stamp() noexcept {
        return header().stamp.fetch_add(1, std::memory_order_relaxed) + 1;
    }

    /// Takes a port for `owner`; uses resting ports early before it gives up. none: no port is
    /// left.
    MaybePort take(const Footprint& footprint, const Ask& ask, OwnerWord owner) noexcept;

    /// Draws by `ask` until `claim(port)` says true, in the spaces that the footprint checks; takes
    /// nothing itself. none: no port is left.
    template <class Claim>
    MaybePort draw(const Footprint& footprint, const Ask& ask, Claim claim) noexcept {
        return draw_until_rests_are_used(footprint, ask.search,
                                         [&] { return draw_now(footprint, ask, claim); });
    }

    /// The first port of a run that is free now; none: no port is left. Takes nothing.
    MaybePort draw_run(const Footprint& footprint, unsigned length, unsigned alignment) noexcept;

    /// Claims one named port in every space the footprint takes, if it overlaps with no other.
    bool claim(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept;
    /// The same for a port that may also rest, be lost, or be known as the kernel's or a dead
    /// holder's; does not look at overlapping spaces, whose judge is the kernel.
    bool claim_exactly(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept;
    /// `was_kernels`: for give_up_exactly().
    bool claim_exactly(const Footprint& footprint, std::uint16_t port, OwnerWord owner,
                       bool& was_kernels) noexcept;
    /// Undoes claim_exactly() without a judgement of the kernel's: what was the kernel's is so
    /// again, anything else rests.
    void give_up_exactly(const Footprint& footprint, std::uint16_t port, OwnerWord owner,
                         bool was_kernels) noexcept;

    /// Gives a port back to its rest, where `owner` still has it.
    void release(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept;
    /// Frees it at once.
    void unclaim(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept;
    /// The kernel refused it: somebody outside has it.
    void mark_kernel_held(const Footprint& footprint, std::uint16_t port, OwnerWord owner) noexcept;

    /// Remembers that space `index` is in use, so that overlapping takers look into it.
    void note_use(unsigned index) noexcept {
        auto& used = header().used_spaces;
        if ((used.load(std::memory_order_relaxed) & space_bit(index)) == 0) {
            used.fetch_or(space_bit(index), std::memory_order_seq_cst);
        }
    }
    std::uint32_t used_spaces() const noexcept {
        return header().used_spaces.load(std::memory_order_seq_cst) & kAllSpaces;
    }

    /// Somebody has the port, in one of these spaces (a mask), without a socket: a promise that the
    /// kernel cannot know.
    /// `except`: a process whose own promises do not count, see without_claim().
    bool is_promised(std::uint32_t spaces, std::uint16_t port,
                     OwnerWord except = kNobody) const noexcept;

    /// One more, one fewer TCP connection from `port`.
    void add_connection(Family family, std::uint16_t port) noexcept;
    void remove_connection(Family family, std::uint16_t port) noexcept;

    /// Sets the range and the ports that exist in it; ports that left it are no longer given out.
    void set_allowed(PortRange range, const PortBits& allowed) noexcept;

private:
    // Each round of a draw frees at least one map of resting ports.
    static constexpr unsigned kRoundLimit = kSpaceCount * RestingPorts::kMapCount;

    // The same among what is free now, without ending any rest.
    template <class Claim>
    MaybePort draw_now(const Footprint& footprint, const Ask& ask, Claim claim) noexcept {
        return choose(candidates_for(footprint, ask), thread_random(), claim);
    }
    // Repeats `draw_once()` while there are resting ports to free.
    template <class DrawOnce>
    MaybePort draw_until_rests_are_used(const Footprint& footprint, RestSearch search,
                                        DrawOnce draw_once) noexcept {
        MaybePort port = draw_once();
        unsigned vain_count = 0;
        for (unsigned round = 0; !port && round <= kRoundLimit; ++round) {
            const std::uint32_t seen = pour_count(footprint);
            const bool has_freed = free_resting(footprint, search);
            port = draw_once();
            // What was resting and has not been found has been freed by another in between; and one
            // that came to rest behind the search is found by the next.
            const bool is_vain = !has_freed && pour_count(footprint) == seen;
            vain_count = is_vain ? vain_count + 1 : 0;
            if (vain_count == 2) break;
        }
        return port;
    }
    Candidates candidates_for(const Footprint& footprint, const Ask& ask) const noexcept;
    MaybePort take_from_one(const Footprint& footprint, OwnerWord owner) noexcept;
    template <class Claim>
    MaybePort draw_from_both(const Footprint& footprint, Claim claim) noexcept;
    bool overlaps(const Footprint& footprint, std::uint16_t port) const noexcept;
    std::uint32_t pour_count(const Footprint& footprint) const noexcept;
    // True when it has freed some.
    bool free_resting(const Footprint& footprint, RestSearch search) noexcept;
    void free_new_ports(unsigned index, unsigned word, std::uint64_t ports) noexcept;

    TableLayout& layout_;
    std::uint64_t epoch_ms_;  // 0: no rest
};

}  // namespace berth::internal
