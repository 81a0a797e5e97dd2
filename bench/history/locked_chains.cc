// SPDX-License-Identifier: Apache-2.0
#include "bench/history/locked_chains.h"

#include <mutex>

namespace berth::bench {

void LockedChains::close(ModelSocket* socket) {
    const std::uint16_t port = socket->port.load(std::memory_order_relaxed);
    if (port != 0) {
        const std::lock_guard guard(chains_.slot_of(port).lock);
        ChainSlot::remove(*socket);
    }
    delete socket;
}

void LockedChains::bind_free_port(ModelSocket& socket, std::uint16_t port) {
    ChainSlot& slot = chains_.slot_of(port);
    const std::lock_guard guard(slot.lock);
    slot.add(socket, port);
}

}  // namespace berth::bench
