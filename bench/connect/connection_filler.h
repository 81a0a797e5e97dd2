// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens connections until a wanted part of the ports is taken, quickly and in the order in which
// the kernel itself would take them: connect() looks at the even offsets of the range first, a
// bind() to port 0 at the odd ones (kernel: __inet_hash_connect, inet_csk_find_open_port).

#include "bench/connect/connection_keeper.h"
#include "bench/harness/workload.h"

#include <cstdint>
#include <span>
#include <vector>

namespace berth::bench {

enum class FillOrder : std::uint8_t { as_connect, as_bind };

class ConnectionFiller {
public:
    ConnectionFiller(const Environment& environment, FillOrder order,
                     std::vector<Address> destinations, std::uint64_t seed);

    /// Takes ports until `count` are. As connect() does, a port is connected to every destination;
    /// as bind() does, only to one.
    Result<void> fill_to(unsigned count);
    std::span<const std::uint16_t> free_ports() const noexcept;

private:
    Result<void> take(std::uint16_t port);
    Result<void> connect_from(std::uint16_t port, const Address& destination, bool may_share);

    FillOrder order_kind_;
    std::vector<Address> destinations_;
    std::vector<std::uint16_t> order_;
    std::size_t taken_count_ = 0;
    bool has_range_option_;
    ConnectionKeeper keeper_;
};

}  // namespace berth::bench
