// SPDX-License-Identifier: Apache-2.0
#pragma once

// Takes ports by explicit bind until a wanted part of the range is taken, in the order in which the
// kernel's own bind(0) takes them, and knows which are still free. The order decides the cost: a
// TCP bind(0) looks at the odd offsets of the range first (kernel: inet_csk_find_open_port), so at
// 50 % every call walks all of them in vain.

#include "bench/harness/workload.h"

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/error.h>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace berth::bench {

class PortFiller {
public:
    /// Where the host's ports are used, those that others hold are found out first.
    PortFiller(const Environment& environment, Protocol protocol, Family family,
               std::uint64_t seed);

    /// Takes ports until `count` of the range are taken. Never gives any back.
    /// **Errors:** descriptors_exhausted, out_of_memory, system.
    Result<void> fill_to(unsigned count);

    /// Ports of the range that are taken, by the filler or by others.
    unsigned taken_count() const noexcept;
    /// The free ports, in the order in which they would be taken.
    std::span<const std::uint16_t> free_ports() const noexcept;

private:
    void leave_out_foreign_ports();
    Result<void> take_next();

    Protocol protocol_;
    Address local_;
    unsigned range_size_;
    bool must_listen_;
    std::vector<std::uint16_t> order_;  // all ports that were free at the start
    std::size_t taken_from_order_ = 0;
    std::vector<Descriptor> sockets_;
};

}  // namespace berth::bench
