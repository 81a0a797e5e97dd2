// SPDX-License-Identifier: Apache-2.0
#include "cli/run/table_keeper.h"

#include "src/base/clock.h"
#include "src/ports/kernel_view.h"

#include <algorithm>
#include <map>

namespace berth::cli {
namespace {

using internal::DestinationKey;
using internal::DestinationPool;
using KernelPorts = DestinationPool::KernelPorts;

// The ports of the kernel's connections, by destination: toward it from one address, and from any.
class ConnectionPicture {
public:
    explicit ConnectionPicture(const internal::KernelSockets& listed) {
        for (const auto& socket : listed.sockets) {
            if (socket.remote.port() == 0) continue;
            const Address remote = socket.remote.unmapped();
            const Address local = socket.local.unmapped().with_port(0);
            const Address any = Address::any(local.family());
            add(DestinationKey::of(remote, local), socket);
            add(DestinationKey::of(remote, any), socket);
        }
    }

    const KernelPorts& ports(const DestinationKey& key) const {
        static constexpr KernelPorts kNone{};
        const auto found = ports_.find(parts_of(key));
        return found == ports_.end() ? kNone : found->second;
    }

private:
    using Parts = std::array<std::uint64_t, 5>;

    static Parts parts_of(const DestinationKey& key) {
        return {key.addresses[0], key.addresses[1], key.addresses[2], key.addresses[3], key.rest};
    }
    void add(const DestinationKey& key, const internal::KernelSocket& socket) {
        constexpr std::uint8_t kTimeWait = 6;  // TCP_TIME_WAIT of netinet/tcp.h
        KernelPorts& ports = ports_[parts_of(key)];
        const std::uint16_t port = socket.local.port();
        auto& words = socket.tcp_state == kTimeWait ? ports.waiting : ports.connected;
        words[port / 64U] |= internal::bit_of(port);
    }

    std::map<Parts, KernelPorts> ports_;
};

}  // namespace

TableKeeper::TableKeeper(RunFiles& files)
    : files_(files),
      snapshots_(std::make_unique<DestinationPool::Snapshot[]>(DestinationPool::kSlotCount)),
      due_ms_(internal::coarse_now_ms() + kIntervalMs),
      not_before_ms_(0) {}

std::uint64_t TableKeeper::idle_ms() const {
    const std::uint64_t now = internal::coarse_now_ms();
    return due_ms_ > now ? due_ms_ - now : 0;
}

void TableKeeper::keep(bool is_asked_for) {
    const std::uint64_t start = internal::coarse_now_ms();
    if (is_asked_for) {
        due_ms_ = std::min(due_ms_, std::max(start, not_before_ms_));
    }
    if (start < due_ms_) {
        return;
    }
    // One that fails is tried again; the programs go on with what the tables know.
    refresh_destinations();  // first: who waits for it makes the kernel search meanwhile
    static_cast<void>(files_.table(Protocol::tcp).reconcile());
    static_cast<void>(files_.table(Protocol::udp).reconcile());
    const std::uint64_t end = internal::coarse_now_ms();
    const std::uint64_t pause = (end - start) * kShare;
    not_before_ms_ = end + std::max(kShortestPauseMs, pause);
    due_ms_ = end + std::max(kIntervalMs, pause);
}

void TableKeeper::refresh_destinations() {
    DestinationPool& pool = files_.page().destinations;
    const PortRange range = files_.table(Protocol::tcp).range();
    unsigned count = 0;
    for (unsigned i = 0; i < DestinationPool::kSlotCount; ++i) {
        if (pool.begin_refresh(i, range, snapshots_[count])) ++count;
    }
    if (count == 0) {
        return;
    }
    const auto listed = internal::read_kernel_sockets(Protocol::tcp);
    if (!listed || listed->was_interrupted) {
        return;
    }
    const ConnectionPicture picture(*listed);
    for (unsigned i = 0; i < count; ++i) {
        pool.end_refresh(snapshots_[i], picture.ports(snapshots_[i].key));
    }
}

}  // namespace berth::cli
