// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which port spaces a socket touches. The kernel refuses a bind when another socket has the port on
// an address that overlaps; so a port must be free in every space whose sockets overlap, and is
// then taken in the space of the address itself.
//
//   socket                     taken in            must also be free in
//   0.0.0.0                    wildcard v4         every v4 address, others v4, connections v4
//   ::  (dual stack)           wildcard v6 and v4  every address, others, connections
//   ::  (IPV6_V6ONLY)          wildcard v6         every v6 address, others v6, connections v6
//   192.0.2.1                  that address        wildcard v4, connections v4
//   TCP connect()              connections         everything that was bound
//
// Two takers of overlapping spaces each claim first and look afterwards, so at least one sees the
// other. Where a space is coarser than the kernel's rule (connections and "others" lump addresses
// together) a port may look taken that is not; the last step of a bind makes up for it.

#include "src/ports/table_layout.h"

#include <berth/address.h>

#include <array>
#include <cstdint>
#include <optional>

namespace berth::internal {

struct Footprint {
    std::array<std::uint32_t, 2> takes = {0, 0};
    std::uint32_t take_count = 1;
    std::uint32_t checks = 0;  // bit i: space i
};

constexpr std::uint32_t space_bit(unsigned space) noexcept { return std::uint32_t{1} << space; }

/// Those that the footprint takes and checks, as a mask.
constexpr std::uint32_t all_spaces(const Footprint& footprint) noexcept {
    std::uint32_t spaces = footprint.checks;
    for (unsigned i = 0; i < footprint.take_count; ++i) spaces |= space_bit(footprint.takes[i]);
    return spaces;
}

/// The specific address's space, if it has one.
std::optional<unsigned> find_space_of_address(const TableHeader& header,
                                              const Address& address) noexcept;

/// Finds the specific address's space, or makes one while there is room.
/// Returns the family's "others" space when there is none.
unsigned space_of_address(TableHeader& header, const Address& address) noexcept;

/// Of a bind to `local`, which is unmapped.
Footprint footprint_of_bind(TableHeader& header, const Address& local, bool is_dual_stack) noexcept;
/// Of a TCP connection.
Footprint footprint_of_connection(Family family) noexcept;
/// Of a port without a socket, and of a socket without an address.
inline Footprint footprint_of_wildcard(const TableHeader& header, bool has_v4,
                                       bool has_v6) noexcept {
    const auto overlaps = [&](unsigned family) {
        return header.address_spaces[family].load(std::memory_order_acquire) |
               space_bit(kOthersSpace + family) | space_bit(kConnectedSpace + family);
    };
    constexpr unsigned kV4 = static_cast<unsigned>(Family::ipv4);
    constexpr unsigned kV6 = static_cast<unsigned>(Family::ipv6);
    if (has_v4 && has_v6) {
        return {{kWildcardSpace + kV6, kWildcardSpace + kV4}, 2, overlaps(kV4) | overlaps(kV6)};
    }
    const unsigned family = has_v4 ? kV4 : kV6;
    return {{kWildcardSpace + family, 0}, 1, overlaps(family)};
}

}  // namespace berth::internal
