// SPDX-License-Identifier: Apache-2.0
#pragma once

// The sockets of one c-ares channel. c-ares calls these functions instead of the system's, so that
// a socket gets its local port from the loop's port tables, and tells which sockets it waits for;
// they are polled on the loop.

#include "src/loop/loop_state.h"

#include <berth/awaitable.h>
#include <berth/ports.h>
#include <berth/socket.h>

#include <poll.h>

#include <ares.h>

#include <memory>
#include <optional>
#include <vector>

namespace berth::internal {

/// Who wants to know when a socket is ready.
class SocketUser {
public:
    /// One of them is ARES_SOCKET_BAD.
    virtual void on_socket_ready(int read_fd, int write_fd) noexcept = 0;

protected:
    ~SocketUser() = default;
};

class QuerySockets {
public:
    QuerySockets(LoopState& loop, SocketUser& user) noexcept : loop_(loop), user_(user) {}
    QuerySockets(const QuerySockets&) = delete;
    QuerySockets& operator=(const QuerySockets&) = delete;

    /// Makes `channel` use these.
    void serve(ares_channel channel) noexcept;
    /// c-ares waits for `fd`, or does no longer. `self` is a QuerySockets.
    static void on_state(void* self, ares_socket_t fd, int is_readable, int is_writable) noexcept;
    /// Frees what was closed. Not from inside c-ares, nor before a completion of theirs.
    void free_closed() noexcept { closed_.clear(); }

    /// Why the last socket could not be had.
    const std::optional<Error>& failure() const noexcept { return failure_; }
    void forget_failure() noexcept { failure_.reset(); }

private:
    struct QuerySocket;

    class Readiness final : public PollOperation {
    public:
        Readiness(QuerySocket& socket, short wanted) noexcept;
        QuerySocket& of;
    };

    struct QuerySocket {
        QuerySocket(QuerySockets& of, Socket opened) noexcept
            : owner(of), socket(std::move(opened)), input(*this, POLLIN), output(*this, POLLOUT) {}
        ~QuerySocket();

        QuerySockets& owner;
        Socket socket;
        Port port;
        SlotHandle slot;
        bool wants_input = false;
        bool wants_output = false;
        Readiness input;
        Readiness output;
    };

    static const ares_socket_functions kFunctions;

    static ares_socket_t on_open(int domain, int type, int protocol, void* self) noexcept;
    static int on_close(ares_socket_t fd, void* self) noexcept;
    static int on_connect(ares_socket_t fd, const sockaddr* remote, ares_socklen_t size,
                          void* self) noexcept;
    static ares_ssize_t on_receive(ares_socket_t fd, void* data, size_t size, int flags,
                                   sockaddr* from, ares_socklen_t* from_size, void* self) noexcept;
    static ares_ssize_t on_send(ares_socket_t fd, const iovec* parts, int count,
                                void* self) noexcept;
    static void on_ready(Operation& operation) noexcept;

    int connect(QuerySocket& socket, const Address& remote);
    QuerySocket* find(int fd) noexcept;
    void watch(QuerySocket& socket) noexcept;
    int fail(const Error& error) noexcept;

    LoopState& loop_;
    SocketUser& user_;
    std::optional<Error> failure_;
    std::vector<std::unique_ptr<QuerySocket>> open_;
    std::vector<std::unique_ptr<QuerySocket>> closed_;
};

}  // namespace berth::internal
