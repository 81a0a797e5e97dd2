// SPDX-License-Identifier: Apache-2.0
#pragma once

// TCP over loopback as the workloads for event loops want it: Nagle off, and the cubic congestion
// control, because one that paces (bbr) spreads a transfer over time that nobody uses.

#include "bench/harness/workload.h"

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/error.h>

#include <vector>

namespace berth::bench {

struct Listener {
    Descriptor socket;  // non-blocking
    /// Where to connect to, in turn: towards one address alone the kernel's search for a free port
    /// gets slow when half of them are taken.
    std::vector<Address> addresses;
};

/// In an own namespace at several loopback addresses, and outside of the port range, so that all of
/// its ports are there for the other side; on the host at 127.0.0.1.
Result<Listener> listen_on_loopback(const Environment& environment);

/// `count` sockets, connected to each of `addresses` in turn.
Result<std::vector<Descriptor>> connect_many(const std::vector<Address>& addresses, unsigned count);

/// A blocking connect; the socket is non-blocking afterwards and closes with a reset, so that
/// nothing is left of it.
Result<Descriptor> connect_to(const Address& address);

/// On a host's own ports a part is left alone: how many connections a program may have to one
/// server, and hold in one process.
unsigned most_connections(const Environment& environment) noexcept;

}  // namespace berth::bench
