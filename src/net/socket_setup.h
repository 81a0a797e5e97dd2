// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opening, binding and configuring the sockets of src/net, with ports from the loop's tables.

#include "src/loop/loop_state.h"

#include <berth/endpoint.h>
#include <berth/error.h>
#include <berth/ports.h>
#include <berth/socket.h>

namespace berth::internal {

/// A socket before its loop knows it. Of the internet families it also knows its options, which the
/// port table would otherwise have to read; a unix socket has only its descriptor.
struct NewSocket {
    Socket internet;
    Descriptor local;

    int fd() const noexcept { return internet.is_open() ? internet.fd() : local.get(); }
    Descriptor release() noexcept {
        return internet.is_open() ? internet.release() : std::move(local);
    }
};

/// **Errors:** descriptors_exhausted, unsupported.
Result<NewSocket> open_socket(const Endpoint& endpoint, Protocol protocol, bool is_nonblocking);

/// setsockopt() of an int. **Errors:** what the kernel answers; `what` names the option.
Result<void> set_option(int fd, int level, int name, int value, const char* what);

/// The peer of a TCP connection will see a reset, not the end of the stream. A unix stream has no
/// such thing.
void reset_when_closed(int fd) noexcept;

/// Binds to `local`, with a port of `ports` when there is one. The Port is empty when the kernel
/// has chosen.
Result<Port> bind_socket(const NewSocket& socket, const Endpoint& local, PortTable* ports);

/// An option of SOL_SOCKET of a descriptor that should be adopted as what is `wanted`.
Result<int> adopted_option(int fd, int option, const char* wanted);
/// **Errors:** invalid_argument, when the descriptor is no socket of this type.
Result<void> check_socket_type(int fd, int type, const char* wanted);

Result<Endpoint> local_endpoint_of(int fd);
Result<Endpoint> remote_endpoint_of(int fd);

}  // namespace berth::internal
