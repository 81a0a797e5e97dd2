// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/tcp_network.h"

#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/tcp_socket.h"

#include <algorithm>
#include <vector>

namespace berth::internal::simulated {
Nanoseconds TcpNetwork::send(Segment segment, Nanoseconds not_before) {
    const Nanoseconds now = kernel_.clock.now();
    const Nanoseconds arrival = std::max(now + kernel_.latency + kernel_.lateness, not_before);
    kernel_.clock.schedule(arrival - now,
                           [this, segment = std::move(segment)] { deliver(segment); });
    return arrival;
}

bool TcpNetwork::is_free(const Address& local, const Address& remote) const {
    const FlowKey flow(local, remote);
    return !flows_.contains(flow) && !time_waits_.contains(flow);
}

void TcpNetwork::add(const std::shared_ptr<TcpSocket>& socket) {
    flows_[FlowKey(socket->local(), socket->remote())] = socket;
}

void TcpNetwork::remove(const TcpSocket& socket) {
    const FlowKey flow(socket.local(), socket.remote());
    if (find(flow) == &socket) {
        flows_.erase(flow);
    }
}

TcpSocket* TcpNetwork::find(const FlowKey& flow) const {
    const auto found = flows_.find(flow);
    return found == flows_.end() ? nullptr : found->second.get();
}

void TcpNetwork::add_time_wait(const TcpSocket& socket, const PortClaim& claim) {
    if (kernel_.options.time_wait.count() == 0) {
        return;
    }
    const FlowKey flow(socket.local(), socket.remote());
    auto kept = std::make_unique<PortClaim>(claim);
    kept->owner = nullptr;
    kept->is_listening = false;
    kernel_.tcp_ports.add(flow.local_port, *kept);
    time_waits_[flow] = std::move(kept);
    kernel_.clock.schedule(kernel_.options.time_wait, [this, flow] { end_time_wait(flow); });
}

void TcpNetwork::end_time_wait(const FlowKey& flow) {
    const auto found = time_waits_.find(flow);
    if (found != time_waits_.end()) {
        kernel_.tcp_ports.remove(flow.local_port, *found->second);
        time_waits_.erase(found);
    }
}

void TcpNetwork::deliver(const Segment& segment) {
    const FlowKey flow(segment.destination, segment.source);
    const auto found = flows_.find(flow);
    if (found == flows_.end()) {
        return segment.is_syn && !segment.is_ack ? deliver_first(segment) : refuse(segment);
    }
    // Whatever becomes of it, the socket outlives its segment.
    const std::shared_ptr<TcpSocket> socket = found->second;
    if (segment.to_id == socket->id()) {
        return socket->on_segment(segment);
    }
    if (segment.to_id == 0 && !segment.is_reset) {
        return socket->on_first_syn(segment);
    }
    refuse(segment);
}

void TcpNetwork::deliver_first(const Segment& segment) {
    switch (kernel_.routes.to(segment.destination)) {
        case Route::black_hole:
            return;
        case Route::no_host:
            if (TcpSocket* sender = find(FlowKey(segment.source, segment.destination))) {
                sender->on_unreachable(segment);
            }
            return;
        default:
            break;
    }
    if (TcpSocket* listener = find_listener(segment)) {
        end_time_wait(FlowKey(segment.destination, segment.source));
        return listener->on_request(segment);
    }
    refuse(segment);
}

TcpSocket* TcpNetwork::find_listener(const Segment& segment) const {
    const Address host = segment.destination.with_port(0);
    std::vector<TcpSocket*> best;
    for (const bool is_exact : {true, false}) {
        for (const PortClaim* claim : kernel_.tcp_ports.claims(segment.destination.port())) {
            PortClaim wanted;
            wanted.host = host;
            const bool has_host = claim->host == host;
            if (claim->is_listening && has_host == is_exact && claim->overlaps(wanted)) {
                best.push_back(static_cast<TcpSocket*>(claim->owner));
            }
        }
        if (!best.empty()) {
            return best[share_of(segment.source, best.size())];
        }
    }
    return nullptr;
}

void TcpNetwork::refuse(const Segment& segment) {
    if (segment.is_reset) {
        return;
    }
    Segment reset;
    reset.source = segment.destination;
    reset.destination = segment.source;
    reset.to_id = segment.from_id;
    reset.is_reset = true;
    send(std::move(reset), Nanoseconds(0));
}

}  // namespace berth::internal::simulated
