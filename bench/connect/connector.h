// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ways to get a TCP connection with a fresh local port that `berth bench connect` compares.

#include "bench/connect/allocators.h"
#include "bench/harness/series.h"
#include "bench/harness/workload.h"

#include <berth/ports.h>

#include <memory>
#include <span>
#include <string_view>

namespace berth::bench {

class Connector {
public:
    virtual ~Connector() = default;
    /// All that a program does after socket(); timed. False: it failed, and failure() says why.
    virtual bool connect(Socket& socket, const Address& remote) = 0;
    /// The connection stays open; called instead of after_close().
    virtual void after_keep() {}
    virtual void after_close() {}
    virtual std::string failure() const = 0;
    /// The last failure says that no port is left.
    virtual bool is_exhausted() const = 0;
};

/// What connectors choose from. Everything must outlive them.
struct ConnectScene {
    Address local;  // loopback, port 0
    PortRange range;
    PortTable* table = nullptr;
    std::span<const std::uint16_t> free_ports;
};

/// `name` is one of connect_allocators(), but not a guest, which connects in a process of its own.
/// Null for `floor` without a free port.
std::unique_ptr<Connector> make_connector(std::string_view name, const ConnectScene& scene);

/// A socket whose close resets the connection, so that it leaves no TIME_WAIT behind.
Result<Socket> open_resetting_socket(Family family);

}  // namespace berth::bench
