// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is asked of a socket before its call is changed. Every question is a system call of a third
// of a microsecond in the path of a bind() that takes one, so only what decides is asked, and what
// rarely matters is asked only where it would.

#include <berth/address.h>
#include <berth/socket.h>

#include <cstdint>
#include <optional>

namespace berth::internal {

/// TCP or UDP over IP; none for anything else, MPTCP and SCTP included.
std::optional<Protocol> protocol_of(int fd) noexcept;

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
std::uint32_t read_port_range(int fd) noexcept;
bool write_port_range(int fd, std::uint32_t range) noexcept;
constexpr std::uint32_t pack_port_range(PortRange range) noexcept {
    return static_cast<std::uint32_t>(range.last) << 16 | range.first;
}

std::optional<Address> local_address_of(int fd) noexcept;

/// None for another family than IPv4 and IPv6, or an address that is not whole.
std::optional<Address> read_address(const sockaddr* address, socklen_t size) noexcept;

/// Has a port that bind(0) would ask for: TCP and UDP sockets, not raw ones that name the protocol.
bool is_raw(int fd) noexcept;

/// Clears SO_REUSEADDR and SO_REUSEPORT while the kernel chooses a port: with either of them it
/// hands out ports that are in use. Puts them back.
class ReuseCleared {
public:
    explicit ReuseCleared(int fd) noexcept;
    ReuseCleared(const ReuseCleared&) = delete;
    ReuseCleared& operator=(const ReuseCleared&) = delete;
    ~ReuseCleared();

private:
    int fd_;
    bool had_address_;
    bool had_port_;
};

}  // namespace berth::internal
