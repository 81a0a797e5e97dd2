// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a call must know of a socket before it is changed. A question to the kernel costs half as
// much as the bind() that it precedes, so what this process has made itself is remembered from
// socket() and setsockopt() on, and only what nobody has seen being made is asked.

#include "src/interpose/held_descriptors.h"

#include <berth/address.h>
#include <berth/socket.h>

#include <cstdint>
#include <optional>

namespace berth::internal {

struct SocketFacts {
    Protocol protocol = Protocol::udp;
    Family family = Family::ipv4;
    SocketFlags flags = kMayHaveAnything;  // what must be asked for
    bool has(SocketFlags flag) const noexcept { return (flags & flag) != 0; }
};

/// TCP or UDP over IP, raw sockets included; none for anything else.
std::optional<Protocol> protocol_of(int fd) noexcept;

/// Of a TCP or UDP socket of the run's network namespace; none for anything else, MPTCP, SCTP and
/// raw sockets included.
std::optional<SocketFacts> facts_of(int fd) noexcept;

/// The socket belongs to the run's network namespace. It is taken for granted for the rest of a
/// clock tick (1 to 10 ms) once this thread has asked: what a thread that changes its namespace
/// within one tick does, is bound to a port that is only noted in the wrong table, until the next
/// reconcile.
bool is_at_home(int fd) noexcept;

/// 0 when it cannot be read.
int read_option(int fd, int level, int name) noexcept;
bool write_option(int fd, int level, int name, int value) noexcept;
inline bool has_option(int fd, int level, int name) noexcept {
    return read_option(fd, level, name) != 0;
}

/// The program's own IP_LOCAL_PORT_RANGE, as the socket option stores it; 0: none.
std::uint32_t read_port_range(int fd, const SocketFacts& facts) noexcept;
bool write_port_range(int fd, std::uint32_t range) noexcept;
constexpr std::uint32_t pack_port_range(PortRange range) noexcept {
    return static_cast<std::uint32_t>(range.last) << 16 | range.first;
}

std::optional<Address> local_address_of(int fd) noexcept;

/// The address of a socket without a port, or with one that nobody has seen it get.
std::optional<Address> local_address_of(int fd, const SocketFacts& facts) noexcept;

/// An IPv6 socket that takes no IPv4. `facts` may spare the question.
bool is_v6_only(int fd, const SocketFacts& facts) noexcept;

/// None for another family than IPv4 and IPv6, or an address that is not whole.
std::optional<Address> read_address(const sockaddr* address, socklen_t size) noexcept;

/// Clears SO_REUSEADDR and SO_REUSEPORT while the kernel chooses a port: with either of them it
/// hands out ports that are in use, and with berth's choice a stranger's would be accepted. Puts
/// them back.
class ReuseCleared {
public:
    ReuseCleared(int fd, const SocketFacts& facts) noexcept;
    ReuseCleared(const ReuseCleared&) = delete;
    ReuseCleared& operator=(const ReuseCleared&) = delete;
    ~ReuseCleared();

private:
    int fd_;
    bool had_address_;
    bool had_port_;
};

}  // namespace berth::internal
