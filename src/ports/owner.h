// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who has a port: one 64-bit word per port and space, written after the port was claimed in the
// bitmap and cleared before it is released. 0 means nobody, so a port that is neither free nor
// resting and has owner 0 was lost by a process that died between two instructions.
//
//   63  60 59 58 57                              0
//   [kind][b][ tag 11 ][ pid 22 | start time 26  ]   process; b: taken to bind a socket to it
//   [kind][ stamp 60                             ]   kernel: a socket outside this table
//   [kind][ lease index 16 | generation 44       ]   lease
//   [kind][ connections 20 | stamp 40            ]   connected: the port of TCP connections
//   [kind][ milliseconds 60                      ]   orphan: found without an owner at that time
//
// A stamp is different at every change, so that a reader of the kernel's list can tell whether a
// word is still the one that it saw before. A tag tells the claims of one process apart: a Port
// whose port was taken back as lost must not give away what another thread has claimed since.

#include "src/base/process.h"

#include <cstdint>

namespace berth::internal {

using OwnerWord = std::uint64_t;

enum class OwnerKind : std::uint8_t {
    nobody = 0,
    process = 1,
    kernel = 2,
    lease = 3,
    connected = 4,
    orphan = 5
};

constexpr OwnerWord kNobody = 0;
constexpr unsigned kKindShift = 60;
constexpr OwnerWord kBoundFlag = OwnerWord{1} << 59;

constexpr OwnerKind kind_of(OwnerWord word) noexcept {
    return static_cast<OwnerKind>(word >> kKindShift);
}

constexpr OwnerWord with_kind(OwnerKind kind, std::uint64_t payload) noexcept {
    return static_cast<OwnerWord>(kind) << kKindShift | payload;
}

/// The calling process, with tag 0.
inline OwnerWord own_word() noexcept { return with_kind(OwnerKind::process, own_process_word()); }

constexpr unsigned kTagBits = 11;
static_assert(ProcessIdentity::kBits + kTagBits < kKindShift);

inline constinit thread_local std::uint32_t claim_count = 0;

/// The calling process, for one claim.
inline OwnerWord claim_word() noexcept {
    // Threads begin at different tags, because their counters lie at different addresses.
    const auto place = reinterpret_cast<std::uintptr_t>(&claim_count);
    const std::uint64_t tag = (place >> 6) + (place >> 12) + ++claim_count;
    return own_word() | (tag & ((1U << kTagBits) - 1)) << ProcessIdentity::kBits;
}

/// The process of a word, without what belongs to one claim.
constexpr OwnerWord without_claim(OwnerWord word) noexcept {
    return word & ~(((OwnerWord{1} << (kTagBits + 1)) - 1) << ProcessIdentity::kBits);
}

inline ProcessIdentity process_of(OwnerWord word) noexcept { return ProcessIdentity::unpack(word); }

constexpr OwnerWord kernel_word(std::uint64_t stamp) noexcept {
    return with_kind(OwnerKind::kernel, stamp & ((std::uint64_t{1} << 60) - 1));
}

constexpr unsigned kGenerationBits = 44;

constexpr OwnerWord lease_word(std::uint16_t index, std::uint64_t generation) noexcept {
    return with_kind(OwnerKind::lease,
                     static_cast<std::uint64_t>(index) << kGenerationBits |
                         (generation & ((std::uint64_t{1} << kGenerationBits) - 1)));
}

constexpr std::uint16_t lease_index_of(OwnerWord word) noexcept {
    return static_cast<std::uint16_t>(word >> kGenerationBits & 0xffff);
}

constexpr OwnerWord orphan_word(std::uint64_t seen_ms) noexcept {
    return with_kind(OwnerKind::orphan, seen_ms & ((std::uint64_t{1} << 60) - 1));
}

constexpr std::uint64_t orphan_since_ms(OwnerWord word) noexcept {
    return word & ((std::uint64_t{1} << 60) - 1);
}

constexpr bool is_nobodys(OwnerWord word) noexcept {
    return word == kNobody || kind_of(word) == OwnerKind::orphan;
}

constexpr unsigned kConnectedStampBits = 40;

constexpr OwnerWord connected_word(std::uint32_t connection_count, std::uint64_t stamp) noexcept {
    return with_kind(OwnerKind::connected,
                     static_cast<std::uint64_t>(connection_count) << kConnectedStampBits |
                         (stamp & ((std::uint64_t{1} << kConnectedStampBits) - 1)));
}

constexpr std::uint32_t connection_count_of(OwnerWord word) noexcept {
    return static_cast<std::uint32_t>(word >> kConnectedStampBits & 0xfffff);
}

}  // namespace berth::internal
