// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which process is meant, beyond the reuse of pids: pid and start time together, packed into 48
// bits: the pid in 22 and the start time in 26, which come round after a week. To be taken for
// another, a process must have the pid and the very hundredth of a second of that week in common.

#include "src/base/fork_page.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::internal {

struct ProcessIdentity {
    pid_t pid = 0;
    std::uint64_t start_ticks = 0;  // low bits of field 22 of /proc/PID/stat; 0: not known

    static constexpr unsigned kStartBits = 26;
    static constexpr unsigned kBits = 48;
    static constexpr std::uint64_t kStartMask = (std::uint64_t{1} << kStartBits) - 1;

    std::uint64_t packed() const noexcept {
        return static_cast<std::uint64_t>(pid) << kStartBits | (start_ticks & kStartMask);
    }
    static ProcessIdentity unpack(std::uint64_t word) noexcept {
        return {static_cast<pid_t>(word >> kStartBits & 0x3fffff), word & kStartMask};
    }
};

/// What /proc/PID/stat says.
struct ProcessStat {
    char state = '?';
    std::uint64_t thread_count = 0;
    std::uint64_t start_ticks = 0;
};

/// Nothing when `text` is not such a file's.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// Reads the identity of this process. **Cost:** four system calls.
std::uint64_t read_own_process_word() noexcept;

/// The calling process, packed; another value in a forked child. **Cost:** two loads.
inline std::uint64_t own_process_word() noexcept {
    const std::uint64_t word = fork_page().process_word.load(std::memory_order_relaxed);
    return word != 0 ? word : read_own_process_word();
}

/// What tells apart the namespace in which this process has its pid; 0 when that is not known. An
/// identity means nothing in another one. **Cost:** one system call.
std::uint64_t own_pid_namespace() noexcept;

/// False when the process has exited (a zombie counts as exited: its sockets are closed) or its pid
/// now belongs to another. True when in doubt. **Cost:** four system calls.
bool is_alive(const ProcessIdentity& process) noexcept;

}  // namespace berth::internal
