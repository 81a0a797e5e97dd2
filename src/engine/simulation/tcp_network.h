// SPDX-License-Identifier: Apache-2.0
#pragma once

// The wire between the TCP sockets. It loses nothing and keeps the order of what one socket sends,
// so segments carry counts instead of wrapping sequence numbers, and nothing but a first SYN is
// ever sent twice. Each socket has an id of its own, as good as the perfect initial sequence
// number: a segment of an earlier connection between the same two addresses finds nobody.

#include "src/engine/simulation/address_io.h"
#include "src/engine/simulation/byte_queue.h"
#include "src/engine/simulation/port_registry.h"
#include "src/engine/simulation/virtual_clock.h"

#include <berth/address.h>

#include <cstdint>
#include <map>
#include <memory>

namespace berth::internal::simulated {

struct Kernel;
class TcpSocket;

struct Segment {
    Address source;
    Address destination;
    std::uint64_t from_id = 0;
    std::uint64_t to_id = 0;  // 0: not known yet
    bool is_syn = false;
    bool is_ack = false;
    bool is_fin = false;
    bool is_reset = false;
    bool acknowledges_fin = false;
    std::uint64_t received_count = 0;  // bytes that the sender of this has got
    std::uint64_t window_end = 0;      // how many it is prepared to have got
    Bytes data;
};

class TcpNetwork {
public:
    explicit TcpNetwork(Kernel& kernel) noexcept : kernel_(kernel) {}

    std::uint64_t next_id() noexcept { return ++last_id_; }
    /// Not before `not_before`; the time at which it will arrive. Segments that were sent later
    /// with the answer as their `not_before` arrive later.
    Nanoseconds send(Segment segment, Nanoseconds not_before);
    /// Whether a connection between the two may be made; a TIME_WAIT is in the way too.
    bool is_free(const Address& local, const Address& remote) const;
    /// The socket lives while it is in here, also when its descriptor is closed.
    void add(const std::shared_ptr<TcpSocket>& socket);
    void remove(const TcpSocket& socket);
    /// Keeps the port and the pair of addresses for the options' time.
    void add_time_wait(const TcpSocket& socket, const PortClaim& claim);

private:
    void deliver(const Segment& segment);
    void deliver_first(const Segment& segment);
    void refuse(const Segment& segment);
    void end_time_wait(const FlowKey& flow);
    TcpSocket* find(const FlowKey& flow) const;
    TcpSocket* find_listener(const Segment& segment) const;

    Kernel& kernel_;
    std::uint64_t last_id_ = 0;
    std::map<FlowKey, std::shared_ptr<TcpSocket>> flows_;
    std::map<FlowKey, std::unique_ptr<PortClaim>> time_waits_;
};

}  // namespace berth::internal::simulated
