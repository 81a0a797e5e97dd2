// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/address.h>
#include <berth/error.h>
#include <berth/socket.h>

namespace berth::internal {

/// What decides about a socket's port, apart from who owns the descriptor.
struct SocketTraits {
    int fd = -1;
    Protocol protocol = Protocol::udp;
    Family family = Family::ipv4;
    SocketOptions options;

    static SocketTraits of(const Socket& socket) noexcept {
        return {socket.fd(), socket.protocol(), socket.family(), socket.options()};
    }
};

/// **Cost:** 6 or 7 system calls. **Errors:** invalid_argument when it is no UDP or TCP socket.
Result<SocketTraits> read_socket_traits(int fd);

/// The address that a socket has now. **Cost:** one system call.
Result<Address> read_local_address(int fd);

}  // namespace berth::internal
