// SPDX-License-Identifier: Apache-2.0
#include "bench/history/one_try_per_port.h"

#include "bench/history/port_walk.h"

namespace berth::bench {

bool OneTryPerPort::bind(ModelSocket& socket, Search& search) {
    std::unique_lock<std::mutex> guard;
    if (one_search_at_a_time_) {
        guard = std::unique_lock(searching_);
    }
    return find_port(socket, search);
}

bool OneTryPerPort::find_port(ModelSocket& socket, Search& search) {
    PortWalk walk(range(), search.random);
    do {
        ChainSlot& slot = chains_.slot_of(walk.port());
        const std::lock_guard guard(slot.lock);
        if (!slot.holds(walk.port())) {
            slot.add(socket, walk.port());
            return true;
        }
    } while (walk.advance() && !search.must_stop());
    return false;
}

}  // namespace berth::bench
