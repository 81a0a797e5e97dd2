// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the driver's side of a job needs beside program.h: how datagrams are made.

#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::bench {

/// Where in the pattern the content of a datagram starts, after its number.
std::uint64_t datagram_phase(std::uint64_t number) noexcept;
/// Number and content. `datagram` has at least 8 bytes and at most 16 KiB.
void write_datagram(std::uint64_t number, std::span<std::byte> datagram) noexcept;
/// The one that ends a flow.
void write_last_datagram(std::span<std::byte> datagram) noexcept;

}  // namespace berth::bench
