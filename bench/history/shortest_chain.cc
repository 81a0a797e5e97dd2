// SPDX-License-Identifier: Apache-2.0
#include "bench/history/shortest_chain.h"

#include <limits>
#include <mutex>

namespace berth::bench {
namespace {

constexpr std::uint32_t kChainCount = 128;
constexpr std::uint32_t kPortsPerChain = 65'536 / kChainCount;

/// The length of a chain, counted no further than `limit`.
std::uint32_t length_of(const ChainSlot& slot, std::uint32_t limit) noexcept {
    std::uint32_t length = 0;
    for (const ModelSocket* socket = slot.first.load(std::memory_order_relaxed);
         socket != nullptr && length < limit;
         socket = socket->next.load(std::memory_order_relaxed)) {
        ++length;
    }
    return length;
}

}  // namespace

ShortestChain::ShortestChain(PortRange range)
    : PortModel(range), chains_(kChainCount), rover_(range.first) {}

std::uint32_t ShortestChain::fold_back(std::uint32_t port) const noexcept {
    const std::uint32_t first = range().first;
    return port <= range().last ? port : first + ((port - first) & (kChainCount - 1));
}

std::uint32_t ShortestChain::find_shortest(Search& search) {
    std::uint32_t shortest = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t best = rover_;
    std::uint32_t port = rover_;
    for (std::uint32_t chain = 0; chain < kChainCount && !search.must_stop(); ++chain) {
        const std::uint32_t length = length_of(chains_.slot_of(port), shortest);
        if (length < shortest) {
            shortest = length;
            best = port;
        }
        if (length == 0) {
            break;
        }
        port = fold_back(port + 1);
    }
    return best;
}

bool ShortestChain::bind(ModelSocket& socket, Search& search) {
    const std::lock_guard guard(lock_);
    std::uint32_t port = find_shortest(search);
    for (std::uint32_t step = 0; step < kPortsPerChain && !search.must_stop(); ++step) {
        ChainSlot& slot = chains_.slot_of(port);
        if (!slot.holds(static_cast<std::uint16_t>(port))) {
            slot.add(socket, static_cast<std::uint16_t>(port));
            rover_ = port;
            return true;
        }
        port = fold_back(port + kChainCount);
    }
    return false;
}

void ShortestChain::close(ModelSocket* socket) {
    if (socket->port.load(std::memory_order_relaxed) != 0) {
        const std::lock_guard guard(lock_);
        ChainSlot::remove(*socket);
    }
    delete socket;
}

void ShortestChain::bind_free_port(ModelSocket& socket, std::uint16_t port) {
    const std::lock_guard guard(lock_);
    chains_.slot_of(port).add(socket, port);
}

}  // namespace berth::bench
