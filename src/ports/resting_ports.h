// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ports that were released and may not be given out again yet. Time is cut into epochs of a sixth
// of the rest period; a released port is set in the bitmap of the current epoch, and a whole bitmap
// is poured back into the free set when its epoch is long enough ago. A port rests for at least the
// rest period and at most 7/6 of it plus a clock tick; longer when nobody uses the table meanwhile.
//
//   epoch   e-7   e-6   e-5   e-4   e-3   e-2   e-1    e
//   map    [pour][rest ][rest ][rest ][rest ][rest ][rest ][ ← released now ]
//
// Pouring sets a port free before it ends its rest, so that at every moment it can be found in one
// of the two. In between another may take it, use it, and put it to rest in this very map, where the
// pourer then wipes it out; he looks for that afterwards (`rescue`).

#include "src/ports/port_set.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace berth::internal {

/// What a space needs to know of the table's range: which ports exist in it.
struct AllowedPorts {
    const PortBits& bits;
    unsigned first_word;
    unsigned last_word;
};

class RestingPorts {
public:
    static constexpr unsigned kMapCount = 8;
    static constexpr unsigned kEpochsOfRest = kMapCount - 2;

    /// Puts a port to rest in epoch `epoch`.
    void add(std::uint16_t port, std::uint64_t epoch) noexcept {
        const unsigned map = epoch % kMapCount;
        maps_[map][port / 64].fetch_or(bit_of(port));
        // Sequentially consistent with pour(): whoever still reads 1 here has set his bit before
        // the other looked for the last time.
        if (is_used_[map].load() == 0) {
            is_used_[map].store(1);
        }
    }

    /// Frees what has rested long enough by epoch `epoch`. Calls `rescue(port)` for each port that
    /// was freed and is not free any more: if nobody has it, it was wiped out. Returns how many were
    /// freed. **Cost:** one load, unless the epoch is new: then up to a microsecond.
    template <class Rescue>
    unsigned advance(std::uint64_t epoch, PortSet& free, const AllowedPorts& allowed,
                     Rescue rescue) noexcept {
        std::uint64_t seen = epoch_.load(std::memory_order_acquire);
        if (epoch <= seen) {
            return 0;
        }
        // The map of the new epoch is never poured here: others may already put ports into it. What
        // it still holds from eight epochs ago rests one more round.
        const std::uint64_t steps = epoch - seen < kMapCount ? epoch - seen : kMapCount;
        unsigned freed = 0;
        for (std::uint64_t newest = epoch - steps + 1; newest <= epoch; ++newest) {
            const unsigned map = (newest + 1) % kMapCount;
            if (map != epoch % kMapCount) freed += pour(map, free, allowed, rescue);
        }
        epoch_.compare_exchange_strong(seen, epoch, std::memory_order_acq_rel);
        return freed;
    }

    /// Frees the ports of the oldest epoch that has any, though they should rest longer. Returns
    /// how many. (A port whose releaser was killed right after it had set the bit may be missed; it
    /// comes with its epoch.)
    template <class Rescue>
    unsigned free_oldest(PortSet& free, const AllowedPorts& allowed, Rescue rescue) noexcept {
        const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
        for (unsigned age = 1; age <= kMapCount; ++age) {
            const unsigned map = (epoch + age) % kMapCount;
            if (is_used_[map].load() == 0) continue;
            if (const unsigned freed = pour(map, free, allowed, rescue); freed > 0) return freed;
        }
        return 0;
    }

    bool is_resting(std::uint16_t port) const noexcept;
    /// The resting ports of one word.
    std::uint64_t word(unsigned index) const noexcept;
    /// Takes one port out of its rest. True for exactly one caller.
    bool remove(std::uint16_t port) noexcept;
    std::uint32_t count() const noexcept;

private:
    template <class Rescue>
    unsigned pour(unsigned map, PortSet& free, const AllowedPorts& allowed,
                  Rescue rescue) noexcept {
        unsigned freed = 0;
        for (unsigned i = allowed.first_word; i <= allowed.last_word; ++i) {
            auto& word = maps_[map][i];
            const std::uint64_t rested = word.load();
            if (rested == 0) continue;
            const std::uint64_t known = rested & allowed.bits[i].load(std::memory_order_relaxed);
            freed += free.release_word(i, known);
            word.fetch_and(~rested);
            for (std::uint64_t gone = known & ~free.word(i); gone != 0; gone &= gone - 1) {
                rescue(static_cast<std::uint16_t>(i * 64 + static_cast<unsigned>(
                                                               std::countr_zero(gone))));
            }
        }
        note_if_empty(map, allowed);
        return freed;
    }
    // Clears the map's mark unless somebody has put a port into it meanwhile.
    void note_if_empty(unsigned map, const AllowedPorts& allowed) noexcept;

    alignas(64) std::atomic<std::uint64_t> epoch_;
    std::array<std::atomic<std::uint32_t>, kMapCount> is_used_;  // 0: the map is empty
    alignas(64) std::array<PortBits, kMapCount> maps_;
};

}  // namespace berth::internal
