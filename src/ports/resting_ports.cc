// SPDX-License-Identifier: Apache-2.0
#include "src/ports/resting_ports.h"

#include <algorithm>
#include <bit>

namespace berth::internal {

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
