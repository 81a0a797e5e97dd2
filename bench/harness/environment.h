// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a benchmark runs. Filling a port range is rude on a host that others use, so berth makes a
// network namespace of its own: as root directly, otherwise inside a user namespace. It sets the
// range there to 19,000 ports, so that figures of different hosts compare, and changes nothing
// else. Where neither is allowed the workloads use the loopback addresses of the host and leave
// a part of its ports alone.

#include "bench/harness/workload.h"

#include <berth/error.h>

#include <string>
#include <string_view>

namespace berth::bench {

enum class NamespaceChoice : std::uint8_t { automatic, host };

/// The range in an own network namespace.
inline constexpr PortRange kBenchRange = {32768, 51767};
/// Descriptors that a workload needs beside one per port.
inline constexpr unsigned kSpareDescriptors = 256;
/// The part of the host's range that is ever taken when there is no own namespace.
inline constexpr double kHostShare = 0.9;

/// Moves this process into its own namespaces, brings lo up, sets the range and raises
/// RLIMIT_NOFILE. Call it once, before any thread exists.
/// **Errors:** what reading the range answers; a refused namespace is no error but Isolation::host.
Result<Environment> make_environment(NamespaceChoice choice);

/// A fresh network namespace like the one make_environment() made, for one more run that must
/// start from nothing. Does nothing for Isolation::host. Call it in a forked child.
Result<void> enter_fresh_namespace(const Environment& environment);

/// How many ports of the range a workload may take.
unsigned usable_port_count(const Environment& environment) noexcept;

/// The address that a workload binds: the wildcard in an own namespace, else loopback.
Address bind_address(const Environment& environment, Family family) noexcept;

/// "network", "user+network" or "host".
std::string_view to_string(Isolation isolation) noexcept;

/// The running kernel's release, such as "6.18.4-amd64".
std::string kernel_release();
bool kernel_is_at_least(unsigned major, unsigned minor);
/// IP_LOCAL_PORT_RANGE is known to this kernel (6.3).
bool has_local_port_range_option();

}  // namespace berth::bench
