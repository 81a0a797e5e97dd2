// SPDX-License-Identifier: Apache-2.0
#include "src/ports/resting_ports.h"

#include <algorithm>
#include <bit>

namespace berth::internal {

unsigned RestingPorts::pour(unsigned map, PortSet& free, const AllowedPorts& allowed) noexcept {
    is_used_[map].store(0);
    unsigned freed = 0;
    for (unsigned i = allowed.first_word; i <= allowed.last_word; ++i) {
        auto& word = maps_[map][i];
        if (word.load() == 0) {
            continue;
        }
        const std::uint64_t rested = word.exchange(0, std::memory_order_acq_rel);
        const std::uint64_t known = rested & allowed.bits[i].load(std::memory_order_relaxed);
        freed += free.release_word(i, known);
    }
    return freed;
}

void RestingPorts::advance_slowly(std::uint64_t epoch, PortSet& free,
                                  const AllowedPorts& allowed) noexcept {
    std::uint64_t seen = epoch_.load(std::memory_order_acquire);
    if (epoch <= seen) {
        return;
    }
    // The map of the new epoch is never poured here: others may already put ports into it. What it
    // still holds from eight epochs ago rests one more round.
    const std::uint64_t steps = std::min<std::uint64_t>(epoch - seen, kMapCount);
    for (std::uint64_t newest = epoch - steps + 1; newest <= epoch; ++newest) {
        const unsigned map = (newest + 1) % kMapCount;
        if (map != epoch % kMapCount) {
            pour(map, free, allowed);
        }
    }
    epoch_.compare_exchange_strong(seen, epoch, std::memory_order_acq_rel);
}

unsigned RestingPorts::free_oldest(PortSet& free, const AllowedPorts& allowed) noexcept {
    const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
    for (unsigned age = 1; age <= kMapCount; ++age) {
        const unsigned map = (epoch + age) % kMapCount;
        if (is_used_[map].load() == 0) {
            continue;
        }
        if (const unsigned freed = pour(map, free, allowed); freed > 0) {
            return freed;
        }
    }
    return 0;
}

bool RestingPorts::is_resting(std::uint16_t port) const noexcept {
    return std::ranges::any_of(maps_, [port](const PortBits& map) { return test(map, port); });
}

bool RestingPorts::remove(std::uint16_t port) noexcept {
    const std::uint64_t bit = bit_of(port);
    return std::ranges::any_of(maps_, [port, bit](PortBits& map) {
        auto& word = map[port / 64];
        return (word.load(std::memory_order_relaxed) & bit) != 0 &&
               (word.fetch_and(~bit, std::memory_order_acq_rel) & bit) != 0;
    });
}

std::uint64_t RestingPorts::word(unsigned index) const noexcept {
    std::uint64_t any = 0;
    for (const PortBits& map : maps_) any |= map[index].load(std::memory_order_acquire);
    return any;
}

std::uint32_t RestingPorts::count() const noexcept {
    std::uint32_t total = 0;
    for (unsigned i = 0; i < kWordCount; ++i) {
        total += static_cast<std::uint32_t>(std::popcount(word(i)));
    }
    return total;
}

}  // namespace berth::internal
