// SPDX-License-Identifier: Apache-2.0
#include "bench/history/odd_even.h"

#include <mutex>

namespace berth::bench {

bool OddEven::Slot::has_conflict(std::uint16_t port) const noexcept {
    for (const Bucket* bucket = first; bucket != nullptr; bucket = bucket->next) {
        if (bucket->port == port) {
            return bucket->owner->port.load(std::memory_order_relaxed) == port;
        }
    }
    return false;
}

void OddEven::Slot::add(ModelSocket& socket, std::uint16_t port) {
    socket.port.store(port, std::memory_order_relaxed);
    first = new Bucket{.next = first, .owner = &socket, .port = port};
}

void OddEven::Slot::remove(std::uint16_t port) noexcept {
    Bucket** link = &first;
    while (*link != nullptr && (*link)->port != port) {
        link = &(*link)->next;
    }
    if (Bucket* found = *link) {
        *link = found->next;
        delete found;
    }
}

bool OddEven::bind(ModelSocket& socket, Search& search) {
    const std::uint32_t even_count = range().size() & ~1U;
    if (even_count == 0) {
        return search_parity(socket, 0, search);
    }
    const std::uint32_t offset = search.random.below(even_count) | 1;
    return search_parity(socket, offset, search) || search_parity(socket, offset - 1, search);
}

bool OddEven::search_parity(ModelSocket& socket, std::uint32_t offset, Search& search) {
    // An odd range leaves its last port out, as the kernel does.
    const std::uint32_t count = range().size() > 1 ? range().size() & ~1U : 1;
    std::uint32_t port = range().first + offset;
    for (std::uint32_t step = 0; step < count && !search.must_stop(); step += 2, port += 2) {
        if (port > range().last) {
            port -= count;
        }
        const auto number = static_cast<std::uint16_t>(port);
        Slot& slot = slots_[number % kSlotCount];
        const std::lock_guard guard(slot.lock);
        if (!slot.has_conflict(number)) {
            slot.add(socket, number);
            return true;
        }
    }
    return false;
}

void OddEven::close(ModelSocket* socket) {
    const std::uint16_t port = socket->port.load(std::memory_order_relaxed);
    if (port != 0) {
        Slot& slot = slots_[port % kSlotCount];
        const std::lock_guard guard(slot.lock);
        slot.remove(port);
    }
    delete socket;
}

void OddEven::bind_free_port(ModelSocket& socket, std::uint16_t port) {
    Slot& slot = slots_[port % kSlotCount];
    const std::lock_guard guard(slot.lock);
    slot.add(socket, port);
}

}  // namespace berth::bench
