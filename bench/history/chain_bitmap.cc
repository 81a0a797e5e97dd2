// SPDX-License-Identifier: Apache-2.0
#include "bench/history/chain_bitmap.h"

#include <bitset>
#include <mutex>

namespace berth::bench {

bool ChainBitmap::bind(ModelSocket& socket, Search& search) {
    const std::uint32_t number = search.random.next();
    const std::uint64_t scaled = std::uint64_t{number} * range().size();
    const auto start = static_cast<std::uint32_t>(range().first + (scaled >> 32));
    const auto step = static_cast<std::uint16_t>((number | 1) * kChainCount);
    for (std::uint32_t chain = 0; chain < kChainCount && !search.must_stop(); ++chain) {
        if (bind_in_chain(socket, static_cast<std::uint16_t>(start + chain), step)) {
            return true;
        }
    }
    return false;
}

bool ChainBitmap::bind_in_chain(ModelSocket& socket, std::uint16_t first, std::uint16_t step) {
    std::bitset<65'536 / kChainCount> taken;
    ChainSlot& slot = chains_.slot_of(first);
    const std::lock_guard guard(slot.lock);
    for (const ModelSocket* other = slot.first.load(std::memory_order_relaxed); other != nullptr;
         other = other->next.load(std::memory_order_relaxed)) {
        taken.set(other->port.load(std::memory_order_relaxed) / kChainCount);
    }
    std::uint16_t port = first;
    do {
        if (range().contains(port) && !taken.test(port / kChainCount)) {
            slot.add(socket, port);
            return true;
        }
        port = static_cast<std::uint16_t>(port + step);
    } while (port != first);
    return false;
}

}  // namespace berth::bench
