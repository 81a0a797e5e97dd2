// SPDX-License-Identifier: Apache-2.0
#pragma once

// The port settings of the running network namespace, from /proc/sys/net/ipv4.

#include <berth/error.h>
#include <berth/socket.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace berth::internal {

struct NamespaceSettings {
    PortRange range;                          // ip_local_port_range
    std::vector<PortRange> reserved;          // ip_local_reserved_ports, as written, ascending
    std::uint16_t unprivileged_start = 1024;  // ip_unprivileged_port_start
};

/// **Errors:** system and permission_denied for an unreadable /proc, invalid_argument for a text
/// that is no range.
Result<NamespaceSettings> read_namespace_settings();

/// For how long, in ms, connect() refuses a four-tuple that was closed from here: TIME_WAIT, or
/// what tcp_tw_reuse leaves of it.
struct TimeWaitRests {
    std::uint32_t local_ms = 60'000;   // to this host
    std::uint32_t remote_ms = 60'000;  // to others
};

/// What the kernel does not say (before 4.19, or without /proc) is taken to be a whole TIME_WAIT.
TimeWaitRests read_time_wait_rests();

/// From the texts of tcp_tw_reuse, tcp_timestamps and tcp_tw_reuse_delay (empty: 1,000 ms).
TimeWaitRests time_wait_rests(std::string_view reuse, std::string_view timestamps,
                              std::string_view delay) noexcept;

/// "32768\t60999" → {32768, 60999}. **Errors:** invalid_argument.
Result<PortRange> parse_port_range(std::string_view text);

/// "", "8080,9000-9010" → ranges. **Errors:** invalid_argument.
Result<std::vector<PortRange>> parse_reserved_ports(std::string_view text);

}  // namespace berth::internal
