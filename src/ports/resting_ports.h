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
// A process that dies while it pours leaves bits that are in no map and in no set: ports with owner
// 0, which the sweep finds.

#include "src/ports/port_set.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

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
        // the other began to look.
        if (is_used_[map].load() == 0) {
            is_used_[map].store(1);
        }
    }

    /// Frees what has rested long enough by epoch `epoch`. **Cost:** one load, unless the epoch is
    /// new: then up to a microsecond.
    void advance(std::uint64_t epoch, PortSet& free, const AllowedPorts& allowed) noexcept {
        if (epoch != epoch_.load(std::memory_order_relaxed)) {
            advance_slowly(epoch, free, allowed);
        }
    }

    /// Frees the ports of the oldest epoch that has any, though they should rest longer. Returns
    /// how many. (A port whose releaser was killed right after it had set the bit may be missed; it
    /// comes with its epoch.)
    unsigned free_oldest(PortSet& free, const AllowedPorts& allowed) noexcept;

    bool is_resting(std::uint16_t port) const noexcept;
    /// The resting ports of one word.
    std::uint64_t word(unsigned index) const noexcept;
    /// Takes one port out of its rest. True for exactly one caller.
    bool remove(std::uint16_t port) noexcept;
    std::uint32_t count() const noexcept;

private:
    void advance_slowly(std::uint64_t epoch, PortSet& free, const AllowedPorts& allowed) noexcept;
    unsigned pour(unsigned map, PortSet& free, const AllowedPorts& allowed) noexcept;

    alignas(64) std::atomic<std::uint64_t> epoch_;
    std::array<std::atomic<std::uint32_t>, kMapCount> is_used_;  // 0: the map is empty
    alignas(64) std::array<PortBits, kMapCount> maps_;
};

}  // namespace berth::internal
