// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a table lies in memory, private or shared: a header, then sixteen port spaces. Everything
// that changes is an atomic word; nothing is a pointer; every index that is read from here is
// checked before it is used.
//
//   space 0, 1      wildcard sockets, IPv4 and IPv6 (a dual-stack socket is in both)
//   space 2, 3      sockets on specific addresses that have no space of their own
//   space 4, 5      ports of TCP connections that connect() chose
//   space 6 … 15    one specific local address each
//
// A port is free for a bind when it is free in every space that the kernel would look at; it is
// then taken in one or two of them (see footprint.h). In private memory an
// untouched space costs nothing; a shared table has all its 10 MB from the start.

#include "src/ports/port_space.h"

#include <berth/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::internal {

constexpr unsigned kWildcardSpace = 0;   // + family
constexpr unsigned kOthersSpace = 2;     // + family
constexpr unsigned kConnectedSpace = 4;  // + family
constexpr unsigned kFirstAddressSpace = 6;
constexpr unsigned kAddressSpaceCount = 10;
constexpr unsigned kSpaceCount = kFirstAddressSpace + kAddressSpaceCount;
constexpr std::uint32_t kAllSpaces = (std::uint32_t{1} << kSpaceCount) - 1;

constexpr unsigned kLeaseCount = 4'096;

/// A lease's place. `state`: 0 free; a process word while it is being made; else a lease word of
/// this index, which the owners of its ports carry too.
struct LeaseEntry {
    std::atomic<OwnerWord> state;
    std::atomic<std::uint64_t> token;
    std::atomic<std::uint64_t> deadline_ns;  // CLOCK_BOOTTIME
    std::atomic<std::uint64_t> generation;
};

/// A specific address's place. `state`: 0 free, a process word while it is being written, 1 ready.
struct AddressEntry {
    static constexpr OwnerWord kReady = 1;
    std::atomic<OwnerWord> state;
    std::atomic<std::uint64_t> high;  // IPv6 address, or IPv4 in the low half of `low`
    std::atomic<std::uint64_t> low;
    std::atomic<std::uint32_t> scope_id;
    std::atomic<std::uint32_t> family;  // Family + 1
};

/// What never changes after the table was made; guarded by a checksum.
struct TableConstants {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t protocol;
    std::uint64_t size;  // of the whole table in bytes
    std::uint64_t boot_id[2];
    std::uint64_t netns_cookie;
    std::uint64_t pidns_inode;
    std::uint32_t rest_period_ms;
    std::uint16_t explicit_first;  // 0: the range follows the namespace
    std::uint16_t explicit_last;
    std::uint32_t honours_reserved;
    std::uint32_t padding;
    std::uint64_t checksum;
};

inline std::uint64_t checksum_of(const TableConstants& constants) noexcept {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&constants);
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
    for (std::size_t i = 0; i < offsetof(TableConstants, checksum); ++i) {
        hash = (hash ^ bytes[i]) * 0x100'0000'01b3;
    }
    return hash;
}

struct TableCounters {
    std::atomic<std::uint64_t> refused;
    std::atomic<std::uint64_t> kernel_choices;
    std::atomic<std::uint64_t> early_rests;
    std::atomic<std::uint64_t> exhausted;
    std::atomic<std::uint64_t> reconciles;
    std::atomic<std::uint64_t> reclaimed;
};

struct TableHeader {
    static constexpr std::uint64_t kMagic = 0x656c'6261'7472'6562;  // "bertable"
    static constexpr std::uint32_t kVersion = 2;

    TableConstants constants;
    std::atomic<std::uint32_t> is_ready;
    std::atomic<std::uint32_t> range;                          // first << 16 | last
    std::atomic<std::uint32_t> known_range;                    // the widest there has been
    std::atomic<std::uint32_t> used_spaces;                    // bit i: space i was ever claimed in
    std::array<std::atomic<std::uint32_t>, 2> address_spaces;  // per family: spaces of addresses
    alignas(64) std::atomic<std::uint64_t> stamp;  // source of the stamps in owner words
    std::atomic<std::uint64_t> next_reconcile_ms;  // CLOCK_MONOTONIC_COARSE
    std::array<std::atomic<std::uint64_t>, kSpaceCount> next_recheck_ms;  // per first taken space
    std::atomic<std::uint64_t> top_holder;   // count << 32 | pid, as of the last recheck
    std::atomic<std::uint32_t> taken_count;  // as of the last recheck
    alignas(64) TableCounters counters;
    alignas(64) std::array<AddressEntry, kAddressSpaceCount> addresses;
    alignas(64) std::array<LeaseEntry, kLeaseCount> leases;
    alignas(64) PortBits allowed;
    PortBits excluded;  // by whoever made the table; never in `allowed`
};

struct TableLayout {
    TableHeader header;
    alignas(4096) std::array<PortSpace, kSpaceCount> spaces;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint32_t pack(PortRange range) noexcept {
    return static_cast<std::uint32_t>(range.first) << 16 | range.last;
}
constexpr PortRange unpack_range(std::uint32_t packed) noexcept {
    return {static_cast<std::uint16_t>(packed >> 16), static_cast<std::uint16_t>(packed)};
}

}  // namespace berth::internal
