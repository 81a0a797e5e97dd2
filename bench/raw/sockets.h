// SPDX-License-Identifier: Apache-2.0
#pragma once

// System calls on sockets as the raw programs make them: recv() and send() rather than read() and
// write(), which cost 2 % more.

#include "bench/programs/program.h"

#include <sys/socket.h>
#include <cerrno>

#include <cstddef>
#include <span>

namespace berth::bench::raw {

inline std::unexpected<Error> last_error(const char* operation) noexcept {
    return std::unexpected(Error::from_errno(errno, operation));
}

inline bool would_block() noexcept { return errno == EAGAIN || errno == EINTR; }

/// -1 when there is none.
inline int accept_one(int listener) noexcept {
    return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
/// Whether accept_one() failed for a reason that concerns only that connection.
inline bool may_accept_again() noexcept { return would_block() || errno == ECONNABORTED; }

/// Waits until all is sent. False: the connection is gone, which the next receive will say too.
bool send_rest(int socket, std::span<const std::byte> data) noexcept;

/// In the usual case one system call.
inline bool send_all(int socket, std::span<const std::byte> data) noexcept {
    const ssize_t sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(data.size())) [[likely]] {
        return true;
    }
    return (sent >= 0 || would_block()) &&
           send_rest(socket, data.subspan(sent > 0 ? static_cast<std::size_t>(sent) : 0));
}

/// A connect() under way, or an errno.
struct StartedConnect {
    int socket = -1;
    int system_errno = 0;
    Port port;
};

/// Opens a socket that will close with a reset, and connects it.
Result<StartedConnect> start_connect(const ChurnJob& job);
/// The same without connect().
Result<int> open_churn_socket();
/// What became of a connect(): 0 or an errno.
int connect_result(int socket) noexcept;

}  // namespace berth::bench::raw
