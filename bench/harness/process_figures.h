// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernel knows of a running process.

#include "bench/harness/row.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace berth::bench {

/// CPU time of a whole process so far; 0 when there is none of that id.
std::uint64_t process_cpu_ns(pid_t process) noexcept;

/// The same by who ran, in ticks of the kernel's clock: too coarse for a slice, but sums over many
/// say how the time divides.
struct CpuTicks {
    std::uint64_t user = 0;
    std::uint64_t system = 0;

    CpuTicks operator-(const CpuTicks& earlier) const noexcept {
        return {user - earlier.user, system - earlier.system};
    }
};
CpuTicks process_cpu_ticks(pid_t process);

/// user_percent, and user_ms and system_ms for a million of what costs `cpu_ns` each.
void add_cpu_shares(Row& row, const Value& cpu_ns, std::optional<double> user_percent);

/// Memory that only this process has, in KiB: what it would give back by ending.
std::optional<std::int64_t> private_memory_kib(pid_t process);
/// The most memory a process has had resident, in KiB, since its start or reset_own_peak_rss().
std::optional<std::int64_t> process_peak_rss_kib(pid_t process);
/// A forked process starts with its parent's peak otherwise.
void reset_own_peak_rss() noexcept;

}  // namespace berth::bench
