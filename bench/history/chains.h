// SPDX-License-Identifier: Apache-2.0
#pragma once

// A hash table of sockets by port, as the kernel's: slot = port mod slot count, newest first.

#include "bench/history/chain_lock.h"
#include "bench/history/model_socket.h"

#include <cstdint>
#include <vector>

namespace berth::bench {

struct alignas(16) ChainSlot {
    std::atomic<ModelSocket*> first{nullptr};
    ChainLock lock;

    /// The slot is locked, or the caller is in a read-side critical section and the answer a hint.
    bool holds(std::uint16_t port) const noexcept {
        for (const ModelSocket* socket = first.load(std::memory_order_acquire); socket != nullptr;
             socket = socket->next.load(std::memory_order_acquire)) {
            if (socket->port.load(std::memory_order_relaxed) == port) {
                return true;
            }
        }
        return false;
    }

    /// The slot is locked.
    void add(ModelSocket& socket, std::uint16_t port) noexcept {
        ModelSocket* second = first.load(std::memory_order_relaxed);
        socket.port.store(port, std::memory_order_relaxed);
        socket.next.store(second, std::memory_order_relaxed);
        socket.link = &first;
        if (second != nullptr) {
            second->link = &socket.next;
        }
        first.store(&socket, std::memory_order_release);
    }

    /// The slot is locked. The socket keeps its `next`: a reader may stand on it.
    static void remove(ModelSocket& socket) noexcept {
        ModelSocket* next = socket.next.load(std::memory_order_relaxed);
        socket.link->store(next, std::memory_order_release);
        if (next != nullptr) {
            next->link = socket.link;
        }
    }
};

class Chains {
public:
    /// `slot_count` is a power of two.
    explicit Chains(std::uint32_t slot_count) : slots_(slot_count) {}

    std::uint32_t slot_count() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
    ChainSlot& slot_of(std::uint32_t port) noexcept { return slots_[port & (slot_count() - 1)]; }

private:
    std::vector<ChainSlot> slots_;
};

}  // namespace berth::bench
