// SPDX-License-Identifier: Apache-2.0
#pragma once

// Connects a TCP socket that has no port: draws one that is unused toward this destination, tells
// the kernel to choose from that one port alone (IP_LOCAL_PORT_RANGE, since Linux 6.3), and
// connects. The port is not bound by that, so it still serves other destinations.

#include "src/interpose/preload/port_giver.h"

namespace berth::internal {

class ConnectionMaker {
public:
    ConnectionMaker(int fd, const SocketFacts& facts, const Address& local, const Address& remote,
                    CallRecord& record) noexcept;

    /// 0 or the errno of connect(); EADDRNOTAVAIL: no port is left. PortGiver::kStepAside: the
    /// kernel decides.
    int connect() noexcept;

private:
    // Not an errno: no port is left, for now.
    static constexpr int kExhausted = -2;

    int connect_now() noexcept;
    int try_ports() noexcept;
    MaybePort draw(bool& is_aside) noexcept;
    int connect_from(std::uint16_t port) noexcept;
    int settle(const Held& held, int error) noexcept;
    void adjust(const Held& held) noexcept;
    int last_step() noexcept;
    int connect_by_kernel() noexcept;
    Held held_of(std::uint16_t port) const noexcept;
    // The table knows too little: the kernel refused as many ports as one call may try.
    bool was_refused() const noexcept;
    DestinationSlot* slot() noexcept { return guest.page->destinations.get(handle_); }

    int fd_;
    Address remote_;
    CallRecord& record_;
    TableCore& table_;
    Footprint footprint_;
    Ask ask_;
    DestinationHandle handle_;
    std::uint32_t programs_range_;
    unsigned refusal_count_ = 0;  // of ports that looked unused
};

}  // namespace berth::internal
