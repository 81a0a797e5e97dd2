// SPDX-License-Identifier: Apache-2.0
#pragma once

// How an echo client sends and receives: with io_uring, so that it costs less than any server and
// so drives each as fast as it can; with epoll where there is no io_uring.

#include "bench/echo/message.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace berth::bench {

class Wire {
public:
    /// Gets what has come on a connection.
    class Sink {
    public:
        virtual ~Sink() = default;
        virtual void received(std::uint32_t connection, std::span<const std::byte> data) = 0;
    };

    virtual ~Wire() = default;
    /// Queues or sends a message; it may be called from within received().
    virtual void send(std::uint32_t connection, const Message& message) = 0;
    /// Sends what is queued, waits at most so long for something to come, and hands it out.
    /// **Errors:** what became of a connection.
    virtual Result<void> exchange(Sink& sink, std::chrono::nanoseconds at_most) = 0;

    /// Takes connected non-blocking sockets; index = connection. They stay the caller's.
    static Result<std::unique_ptr<Wire>> open(const std::vector<Descriptor>& sockets);
};

/// **Errors:** unsupported, permission_denied.
Result<std::unique_ptr<Wire>> open_io_uring_wire(const std::vector<Descriptor>& sockets);
Result<std::unique_ptr<Wire>> open_epoll_wire(const std::vector<Descriptor>& sockets);

}  // namespace berth::bench
