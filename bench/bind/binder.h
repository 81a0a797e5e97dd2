// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ways to get a bound port that `berth bench bind` compares.

#include "bench/bind/allocators.h"
#include "bench/harness/series.h"
#include "bench/harness/workload.h"

#include <berth/ports.h>

#include <memory>
#include <span>
#include <string_view>

namespace berth::bench {

class Binder {
public:
    virtual ~Binder() = default;
    /// Options that a program sets once for each socket; not timed.
    virtual Result<void> prepare(Socket& socket);
    /// The call that is timed. False: it failed, and failure() says why.
    virtual bool bind(const Socket& socket) = 0;
    /// Called when the socket is closed; not timed.
    virtual void after_close() {}
    virtual std::string failure() const = 0;
};

/// What binders choose from at one occupancy. Everything must outlive them.
struct BindScene {
    Address local;  // port 0
    PortRange range;
    PortTable* table = nullptr;  // null: no berth binder is wanted
    std::span<const std::uint16_t> free_ports;
};

/// `name` is one of bind_allocators(), but not a guest, which measures in a process of its own.
/// Null for `floor` without a free port.
std::unique_ptr<Binder> make_binder(std::string_view name, const BindScene& scene);

/// Opens, binds and closes sockets until the limits; only the bind is timed.
/// **Errors:** descriptors_exhausted, unsupported, system, when a socket cannot be made.
Result<Batch> measure_binds(Binder& binder, Protocol protocol, Family family,
                            const BatchLimits& limits);

}  // namespace berth::bench
