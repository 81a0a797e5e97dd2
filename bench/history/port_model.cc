// SPDX-License-Identifier: Apache-2.0
#include "bench/history/port_model.h"

#include <numeric>

namespace berth::bench {

std::vector<ModelSocket*> PortModel::fill() {
    std::vector<std::uint16_t> ports(range_.size());
    std::iota(ports.begin(), ports.end(), range_.first);
    // Shuffled, so that neighbours in a chain are no neighbours in memory.
    for (std::size_t left = ports.size(); left > 1; --left) {
        const auto other = internal::thread_random().below(static_cast<std::uint32_t>(left));
        std::swap(ports[left - 1], ports[other]);
    }
    std::vector<ModelSocket*> sockets;
    sockets.reserve(ports.size());
    for (const std::uint16_t port : ports) {
        ModelSocket* socket = open();
        bind_free_port(*socket, port);
        sockets.push_back(socket);
    }
    return sockets;
}

}  // namespace berth::bench
