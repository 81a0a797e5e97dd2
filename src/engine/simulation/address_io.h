// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between the sockaddr of a call and an Address. Inside, every IPv4 address is an IPv4 address:
// its IPv6 form is made and unmade here.

#include "src/engine/simulation/transfer.h"

#include <berth/address.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace berth::internal::simulated {

/// The IPv6 form of an IPv4 address; others unchanged.
Address mapped(const Address& address);
/// As a socket of this family sees it.
SocketName name_of(const Address& address, Family family);
/// What a call on a socket of `family` was given; not unmapped. 0 or minus errno.
int read_address(Family family, const sockaddr* from, socklen_t size, Address& address);
/// The host without the port.
Address host_of(const Address& address);

/// Which of `count` sockets with SO_REUSEPORT serves this peer; always the same one.
std::size_t share_of(const Address& peer, std::size_t count);

/// To look a connection up by.
struct FlowKey {
    std::array<std::uint8_t, 16> local_host;
    std::array<std::uint8_t, 16> remote_host;
    std::uint16_t local_port;
    std::uint16_t remote_port;
    bool is_ipv6;

    FlowKey(const Address& local, const Address& remote)
        : local_host(local.bytes()),
          remote_host(remote.bytes()),
          local_port(local.port()),
          remote_port(remote.port()),
          is_ipv6(local.family() == Family::ipv6) {}
    auto operator<=>(const FlowKey&) const = default;
};

}  // namespace berth::internal::simulated
