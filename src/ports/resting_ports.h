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
// Nobody waits for whoever pours: he may be stopped or killed at any instruction, so any number may
// pour the same map at once. A port is set free before its rest is wiped out, so that at every
// moment it can be found in one of the two. What that allows, and why it is harmless:
//   - A port is set free again after somebody has taken it. Its owner word stands; the next one who
//     claims the bit finds that and leaves it cleared (PortSpace::settle).
//   - A port that was taken, used and put to rest in this map meanwhile is wiped out. The pourer
//     looks for ports that are in neither and frees those without an owner (`rescue`).

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

/// How far to look for ports that rest.
enum class RestSearch : std::uint8_t { quick, thorough };

struct NoRescue {
    void operator()(std::uint16_t /*port*/) const noexcept {}
};

class RestingPorts {
public:
    static constexpr unsigned kMapCount = 8;
    static constexpr unsigned kEpochsOfRest = kMapCount - 2;

    /// Puts a port to rest in epoch `epoch`.
    void add(std::uint16_t port, std::uint64_t epoch) noexcept {
        const unsigned map = epoch % kMapCount;
        maps_[map][port / 64].fetch_or(bit_of(port));
        if (is_used_[map].load() == 0) {
            is_used_[map].store(1);
        }
    }

    /// Frees what has rested long enough by epoch `epoch`. Calls `rescue(port)` for each port that
    /// was set free and is not free any more. Returns how many were freed. **Cost:** one load,
    /// unless the epoch is new: then up to a microsecond.
    template <class Rescue = NoRescue>
    unsigned advance(std::uint64_t epoch, PortSet& free, const AllowedPorts& allowed,
                     Rescue rescue = {}) noexcept {
        std::uint64_t seen = epoch_.load(std::memory_order_acquire);
        if (epoch <= seen) {
            return 0;
        }
        // The map of the new epoch is never poured here: others may already put ports into it. What
        // it still holds from eight epochs ago rests one more round.
        const std::uint64_t steps = epoch - seen < kMapCount ? epoch - seen : kMapCount;
        unsigned freed = 0;
        for (std::uint64_t step = 0; step < steps; ++step) {
            const unsigned map = (epoch - step + 1) % kMapCount;
            if (map != epoch % kMapCount) freed += pour(map, free, allowed, rescue);
        }
        epoch_.compare_exchange_strong(seen, epoch, std::memory_order_acq_rel);
        return freed;
    }

    /// Frees the ports of the oldest epoch that has any, though they should rest longer. Returns
    /// how many. A quick search skips old maps that were emptied; it misses a port whose releaser
    /// was late by an epoch, or died before he could mark the map.
    template <class Rescue = NoRescue>
    unsigned free_oldest(PortSet& free, const AllowedPorts& allowed,
                         RestSearch search = RestSearch::thorough, Rescue rescue = {}) noexcept {
        const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
        for (unsigned age = 1; age < kMapCount; ++age) {
            const unsigned map = (epoch + age) % kMapCount;
            auto& mark = is_used_[map];
            if (mark.load() == 0 && search == RestSearch::quick) continue;
            const unsigned freed = pour(map, free, allowed, rescue);
            mark.store(0);
            if (freed > 0) return freed;
        }
        // Ports come into the map of this epoch all the time: its mark would tell nothing.
        return pour(epoch % kMapCount, free, allowed, rescue);
    }

    /// Another number once a port was set free that had been resting before.
    std::uint32_t pour_count() const noexcept { return pour_count_.load(); }

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
            pour_count_.fetch_add(1);
            freed += free.release_word(i, known);
            free.claim_word(i, known & ~allowed.bits[i].load());  // has left the range just now
            word.fetch_and(~rested);
            for (std::uint64_t gone = known & ~free.word(i); gone != 0; gone &= gone - 1) {
                rescue(static_cast<std::uint16_t>(i * 64 +
                                                  static_cast<unsigned>(std::countr_zero(gone))));
            }
        }
        return freed;
    }

    alignas(64) std::atomic<std::uint64_t> epoch_;
    std::atomic<std::uint32_t> pour_count_;
    std::array<std::atomic<std::uint32_t>, kMapCount> is_used_;  // 0: emptied since its epoch
    alignas(64) std::array<PortBits, kMapCount> maps_;
};

}  // namespace berth::internal
