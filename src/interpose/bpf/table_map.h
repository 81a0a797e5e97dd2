// SPDX-License-Identifier: Apache-2.0
#pragma once

// One table of the programs, as user space has it: its map, mapped into memory. Every change is an
// atomic step that holds beside the programs' own (see shared.h), so nothing here waits for them.

#include "src/interpose/bpf/shared.h"
#include "src/ports/namespace_settings.h"

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/socket.h>

#include <array>
#include <cstdint>

namespace berth::internal::bpf {

using PortWords = std::array<std::uint64_t, BERTH_WORDS>;  // bit n: port n

inline bool has_port(const PortWords& ports, unsigned port) noexcept {
    return (ports[port / 64] >> (port % 64) & 1) != 0;
}
inline void add_port(PortWords& ports, unsigned port) noexcept {
    ports[port / 64] |= std::uint64_t{1} << (port % 64);
}

constexpr berth_kind kind_of(std::uint64_t owner) noexcept {
    return static_cast<berth_kind>(owner >> BERTH_KIND_SHIFT);
}
constexpr std::uint64_t value_of(std::uint64_t owner) noexcept { return owner & BERTH_VALUE_MASK; }

struct Rests {
    std::uint32_t brief_ms = 500;
    std::uint32_t lengthy_ms = 60'000;
};

/// The kernel's protocol number.
std::uint32_t number_of(Protocol protocol) noexcept;

class TableMap {
public:
    /// A new map, filled: every allowed port is free. The programs do not choose from it before
    /// extend(). **Errors:** permission_denied, out_of_memory, system.
    static Result<TableMap> create(PortRange range, const PortWords& allowed, Rests rests);
    /// Takes ownership of the map. **Errors:** table_mismatch when it is no table of this version.
    static Result<TableMap> open(Descriptor map);

    TableMap(TableMap&& other) noexcept;
    TableMap& operator=(TableMap&& other) noexcept;
    ~TableMap();

    int fd() const noexcept { return map_.get(); }
    berth_table& table() const noexcept { return *table_; }

    std::uint64_t owner(unsigned port) const noexcept;
    bool replace_owner(unsigned port, std::uint64_t before, std::uint64_t after) const noexcept;
    bool is_free(unsigned port) const noexcept;
    bool is_allowed(unsigned port) const noexcept;
    /// Only of a port without an owner; no effect on one that is not allowed.
    void put_free(unsigned port) const noexcept;
    void take_free(unsigned port) const noexcept;
    bool is_resting(unsigned port, bool is_lengthy) const noexcept;
    void forget_rest(unsigned port, bool is_lengthy) const noexcept;
    /// In the map of this epoch.
    void put_to_rest(unsigned port, bool is_lengthy) const noexcept;
    void note_settled() const noexcept;  // a port is PENDING no more

    /// The range and the ports in it have changed.
    void set_allowed(PortRange range, const PortWords& allowed) const noexcept;
    /// Of one with TCP ports.
    void set_pair_rests(const TimeWaitRests& rests) const noexcept;
    /// The programs may choose from it for that long.
    void extend(std::uint32_t valid_ms) const noexcept;
    /// Whether ports have run out since the last call.
    bool takes_wish_for_sync() const noexcept;
    /// Counts again what a killed agent may have left wrong.
    void recount() const noexcept;

    struct Occupancy {
        unsigned allowed = 0, free = 0, resting = 0, pending = 0, owned = 0;
    };
    Occupancy occupancy() const noexcept;

private:
    TableMap(Descriptor map, berth_table* table) noexcept;

    Descriptor map_;
    berth_table* table_;
};

/// CLOCK_MONOTONIC, as the programs read it.
std::uint64_t monotonic_ms() noexcept;

}  // namespace berth::internal::bpf
