// SPDX-License-Identifier: Apache-2.0
#include "bench/history/berth_model.h"

#include "src/base/assert.h"

#include <chrono>
#include <utility>

namespace berth::bench {

Result<std::unique_ptr<PortModel>> BerthModel::create(PortRange range) {
    // The other models let no port rest and know no socket but their own.
    TableOptions options;
    options.range = range;
    options.rest_period = std::chrono::milliseconds(0);
    options.honour_reserved = false;
    options.reconcile_at_start = false;
    PortTable table = BERTH_TRY(PortTable::create(Protocol::udp, options));
    return std::make_unique<BerthModel>(range, std::move(table));
}

bool BerthModel::bind(ModelSocket& socket, Search&) {
    auto port = table_.take(TakeFamily::ipv4);
    if (!port) {
        return false;
    }
    socket.port.store(port->number(), std::memory_order_relaxed);
    const auto index = static_cast<std::size_t>(port->number() - range().first);
    ports_[index] = std::move(*port);
    return true;
}

void BerthModel::close(ModelSocket* socket) {
    const std::uint16_t port = socket->port.load(std::memory_order_relaxed);
    if (port != 0) {
        // The entry is moved out first: once the port is released another thread may fill it.
        Port released = std::move(ports_[static_cast<std::size_t>(port - range().first)]);
    }
    delete socket;
}

std::vector<ModelSocket*> BerthModel::fill() {
    const std::atomic<bool> is_stopped{false};
    Search search{.random = internal::thread_random(), .is_stopped = is_stopped};
    std::vector<ModelSocket*> sockets;
    for (std::uint32_t taken = 0; taken < range().size(); ++taken) {
        sockets.push_back(open());
        BERTH_ASSERT(bind(*sockets.back(), search));
    }
    return sockets;
}

void BerthModel::bind_free_port(ModelSocket&, std::uint16_t) {
    constexpr bool kIsFilledByItsOwnChoice = true;
    BERTH_ASSERT(!kIsFilledByItsOwnChoice);
}

}  // namespace berth::bench
