// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accepting connections: TCP over IPv4 or IPv6, or a unix stream socket.
//
// Loop thread only. A listener goes before its loop. Closing it cancels its operations and resets
// the connections that nobody has accepted.

#include <berth/awaitable.h>
#include <berth/endpoint.h>
#include <berth/export.h>
#include <berth/stream.h>

#include <array>
#include <span>
#include <utility>

namespace berth {

struct ListenOptions {
    int backlog = 4096;         ///< Connections that wait for accept(); the kernel's limit is
                                ///< net.core.somaxconn.
    bool reuse_address = true;  ///< SO_REUSEADDR: not to wait for the TIME_WAIT of earlier ones.
    bool reuse_port = false;    ///< SO_REUSEPORT: several listeners share the connections.
    bool v6_only = false;       ///< An IPv6 wildcard takes no IPv4 connections.
    bool no_delay = true;       ///< TCP_NODELAY, inherited by what is accepted.
};

class AcceptAwaiter;

class BERTH_API Listener {
public:
    Listener() noexcept = default;
    /// Listens at `local`. Port 0: a free port of the loop's port table, else of the kernel.
    /// **Errors:** port_in_use, ports_exhausted, address_not_available, permission_denied,
    /// descriptors_exhausted, unsupported.
    static Result<Listener> open(Loop& loop, const Endpoint& local,
                                 const ListenOptions& options = {});
    /// Takes over a listening socket. **Errors:** invalid_argument.
    static Result<Listener> adopt(Loop& loop, Descriptor socket);

    Listener(Listener&& other) noexcept { take_over(other); }
    Listener& operator=(Listener&& other) noexcept;
    ~Listener() { close(); }

    bool is_open() const noexcept { return slot_.is_valid(); }
    int fd() const noexcept { return fd_; }
    Result<Endpoint> local_endpoint() const;

    /// One connection, or as many as there is room for in `accepted`; make streams of them with
    /// take(). **Errors:** descriptors_exhausted, out_of_memory (then accept again later: the
    /// connections wait), cancelled.
    Start accept(AcceptOperation& operation, std::span<int> accepted,
                 Deadline deadline = {}) noexcept {
        operation.accepted = accepted;
        return internal::submit(loop_, operation, slot_, deadline);
    }
    /// A descriptor that accept() gave, as a stream. **Errors:** out_of_memory,
    /// descriptors_exhausted; the connection is closed then.
    Result<Stream> take(int accepted) noexcept;
    /// `Result<Stream> stream = co_await listener.accept();` The listener must stay where it is.
    AcceptAwaiter accept(Deadline deadline = {}) noexcept;

    void close() noexcept;

private:
    Listener(internal::LoopState* loop, internal::SlotHandle slot, int fd, bool is_unix) noexcept
        : loop_(loop), slot_(slot), fd_(fd), is_unix_(is_unix) {}
    void take_over(Listener& other) noexcept;

    internal::LoopState* loop_ = nullptr;
    internal::SlotHandle slot_;
    int fd_ = -1;
    bool is_unix_ = false;
    Port port_;
};

class BERTH_API AcceptAwaiter final : public Awaiter<AcceptOperation> {
public:
    AcceptAwaiter(Listener& listener, internal::LoopState* loop, internal::SlotHandle on_slot,
                  Deadline deadline) noexcept
        : Awaiter(loop, on_slot, deadline), listener_(listener) {
        accepted = std::span(&accepted_one_, 1);
    }
    ~AcceptAwaiter() { end(); }

    Result<Stream> await_resume() noexcept;

private:
    Listener& listener_;
    int accepted_one_ = -1;
};

inline AcceptAwaiter Listener::accept(Deadline deadline) noexcept {
    return {*this, loop_, slot_, deadline};
}

}  // namespace berth
