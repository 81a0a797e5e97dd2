// SPDX-License-Identifier: Apache-2.0
#pragma once

// One connection of an echo server over a library that reports readiness and leaves the calls to
// its user. What comes is sent back at once; only what the socket does not take is kept, and then
// nothing is received before it is gone.

#include "bench/raw/sockets.h"

#include <algorithm>
#include <vector>

namespace berth::bench {

class EchoExchange {
public:
    /// What to do when the socket is ready for it.
    enum class Next : std::uint8_t { receive, send_kept, close };

    Next receive(int socket, std::span<std::byte> buffer) {
        const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
        if (size <= 0) {
            return size < 0 && raw::would_block() ? Next::receive : Next::close;
        }
        const auto data = buffer.first(static_cast<std::size_t>(size));
        const ssize_t sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
        if (sent == size) [[likely]] {
            return Next::receive;
        }
        if (sent < 0 && !raw::would_block()) {
            return Next::close;
        }
        const auto rest = data.subspan(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
        kept_.assign(rest.begin(), rest.end());
        return Next::send_kept;
    }

    Next send_kept(int socket) {
        const ssize_t sent = ::send(socket, kept_.data(), kept_.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return raw::would_block() ? Next::send_kept : Next::close;
        }
        kept_.erase(kept_.begin(), kept_.begin() + sent);
        if (!kept_.empty()) {
            return Next::send_kept;
        }
        kept_.shrink_to_fit();
        return Next::receive;
    }

private:
    std::vector<std::byte> kept_;
};

}  // namespace berth::bench
