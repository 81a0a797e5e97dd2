// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which process is meant, beyond the reuse of pids: pid and start time together, packed into 58
// bits (pid 22, clock ticks since boot 36).

#include "src/base/fork_page.h"

#include <sys/types.h>

#include <cstdint>

namespace berth::internal {

struct ProcessIdentity {
    pid_t pid = 0;
    std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat; 0: could not be read

    static constexpr unsigned kStartBits = 36;
    static constexpr unsigned kBits = 58;

    std::uint64_t packed() const noexcept {
        return static_cast<std::uint64_t>(pid) << kStartBits |
               (start_ticks & ((std::uint64_t{1} << kStartBits) - 1));
    }
    static ProcessIdentity unpack(std::uint64_t word) noexcept {
        return {static_cast<pid_t>(word >> kStartBits & 0x3fffff),
                word & ((std::uint64_t{1} << kStartBits) - 1)};
    }
};

/// Reads the identity of this process. **Cost:** four system calls.
std::uint64_t read_own_process_word() noexcept;

/// The calling process, packed; another value in a forked child. **Cost:** two loads.
inline std::uint64_t own_process_word() noexcept {
    const std::uint64_t word = fork_page().process_word.load(std::memory_order_relaxed);
    return word != 0 ? word : read_own_process_word();
}

/// False when the process has exited (a zombie counts as exited: its sockets are closed) or its pid
/// now belongs to another. True when in doubt. **Cost:** four system calls.
bool is_alive(const ProcessIdentity& process) noexcept;

}  // namespace berth::internal
