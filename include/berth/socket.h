// SPDX-License-Identifier: Apache-2.0
#pragma once

// A UDP or TCP socket that knows its own options. The kernel tells an option only for the price
// of a system call, about half a bind(); berth must know five of them before it may choose a port
// (they decide whether the kernel would silently share it). A Socket reads them once (of one that
// berth made, at most IPV6_V6ONLY), and sees every later change because it is the one that makes
// it. Options set behind its back on fd() are noticed after reload_options().

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/export.h>

#include <cstdint>

namespace berth {

/// An inclusive range of ports. Valid when 1 <= first <= last.
struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;

    bool is_valid() const noexcept { return first >= 1 && first <= last; }
    std::uint32_t size() const noexcept { return is_valid() ? last - first + 1U : 0; }
    bool contains(std::uint16_t port) const noexcept { return port >= first && port <= last; }
    friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// The options that decide which ports the kernel accepts for a socket.
struct SocketOptions {
    bool reuse_address = false;           ///< SO_REUSEADDR
    bool reuse_port = false;              ///< SO_REUSEPORT
    bool v6_only = false;                 ///< IPV6_V6ONLY
    bool bind_address_no_port = false;    ///< IP_BIND_ADDRESS_NO_PORT
    PortRange local_port_range = {0, 0};  ///< IP_LOCAL_PORT_RANGE; 0 = the namespace's bound
};

class BERTH_API Socket {
public:
    Socket() noexcept = default;
    /// A new socket with close-on-exec, blocking unless told otherwise.
    /// **Errors:** descriptors_exhausted, unsupported (IPv6 is switched off), system.
    static Result<Socket> open(Protocol protocol, Family family, bool is_nonblocking = false);
    /// Takes ownership of a UDP or TCP socket made elsewhere and reads its options.
    /// **Cost:** 7 system calls. **Errors:** invalid_argument when it is no such socket.
    static Result<Socket> adopt(Descriptor socket);

    int fd() const noexcept { return descriptor_.get(); }
    bool is_open() const noexcept { return descriptor_.is_open(); }
    Protocol protocol() const noexcept { return protocol_; }
    Family family() const noexcept { return family_; }
    const SocketOptions& options() const noexcept { return options_; }

    Result<void> set_reuse_address(bool on);
    Result<void> set_reuse_port(bool on);
    Result<void> set_v6_only(bool on);
    Result<void> set_bind_address_no_port(bool on);
    /// {0, 0} goes back to the namespace's range. **Since kernel:** 6.3.
    Result<void> set_local_port_range(PortRange range);
    Result<void> set_nonblocking(bool on);
    /// Reads the options again, after they were changed by way of fd().
    Result<void> reload_options();

    /// The address the socket has now. **Cost:** one system call.
    Result<Address> local_address() const;

    void close() noexcept { descriptor_.reset(); }
    /// Gives the descriptor to the caller.
    Descriptor release() noexcept { return std::move(descriptor_); }

private:
    Descriptor descriptor_;
    Protocol protocol_ = Protocol::udp;
    Family family_ = Family::ipv4;
    SocketOptions options_;
};

inline Result<Socket> udp_socket(Family family) { return Socket::open(Protocol::udp, family); }
inline Result<Socket> tcp_socket(Family family) { return Socket::open(Protocol::tcp, family); }

}  // namespace berth
