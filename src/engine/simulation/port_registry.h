// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who has which local port of a protocol, and the kernel's rules for sharing one.
//
// Source: net/ipv4/inet_connection_sock.c (inet_csk_bind_conflict), net/ipv4/udp.c
// (udp_lib_lport_inuse).

#include <berth/address.h>

#include <cstdint>
#include <map>
#include <vector>

namespace berth::internal::simulated {

class InternetSocket;

/// One socket's hold on its port. The flags follow the socket's options while it holds it.
struct PortClaim {
    InternetSocket* owner = nullptr;  // null: a connection in TIME_WAIT
    Address host;                     // may be the wildcard; unmapped
    bool covers_ipv4 = true;          // of a wildcard
    bool covers_ipv6 = false;
    bool may_reuse_address = false;
    bool may_reuse_port = false;
    bool is_listening = false;
    bool is_by_connect = false;  // such a port serves other destinations too

    bool overlaps(const PortClaim& other) const;
};

class PortRegistry {
public:
    explicit PortRegistry(Protocol protocol) noexcept : protocol_(protocol) {}

    /// `is_chosen_here`: the kernel is looking for a port, and is stricter than with one that the
    /// user has named.
    bool has_conflict(std::uint16_t port, const PortClaim& claim, bool is_chosen_here) const;
    /// Whether a connect() that looks for a port must pass this one by.
    bool is_bound(std::uint16_t port) const;
    void add(std::uint16_t port, PortClaim& claim) { claims_[port].push_back(&claim); }
    void remove(std::uint16_t port, PortClaim& claim);
    /// In the order they were added.
    const std::vector<PortClaim*>& claims(std::uint16_t port) const;

private:
    bool is_conflict(const PortClaim& claim, const PortClaim& other, bool is_chosen_here) const;

    Protocol protocol_;
    std::map<std::uint16_t, std::vector<PortClaim*>> claims_;
};

}  // namespace berth::internal::simulated
