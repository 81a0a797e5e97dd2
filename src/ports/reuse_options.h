// SPDX-License-Identifier: Apache-2.0
#pragma once

// SO_REUSEADDR and SO_REUSEPORT around a bind. With either of them set, the kernel's UDP bind and,
// between sockets that do not listen, its TCP bind accept a port that is in use, silently. So they
// are cleared while berth binds a port it chose, and put back afterwards.

#include "src/base/socket_traits.h"

#include <berth/error.h>
#include <berth/ports.h>

namespace berth::internal {

class ReuseOptions {
public:
    explicit ReuseOptions(const SocketTraits& socket) noexcept
        : fd_(socket.fd),
          reuse_address_{socket.options.reuse_address, socket.options.reuse_address},
          reuse_port_{socket.options.reuse_port, socket.options.reuse_port} {}
    ReuseOptions(const ReuseOptions&) = delete;
    ReuseOptions& operator=(const ReuseOptions&) = delete;
    /// Puts both back to what the caller had, except one that the caller asked for by name.
    ~ReuseOptions();

    /// Sets exactly the option that `sharing` names. **Cost:** no system call when that is so.
    Result<void> set_for(Sharing sharing);

private:
    struct Option {
        bool now;
        bool afterwards;
    };
    Result<void> set(Option& option, int name, bool is_on);

    int fd_;
    Option reuse_address_;
    Option reuse_port_;
};

}  // namespace berth::internal
