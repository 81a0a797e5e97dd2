// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many system calls another process makes. Where the kernel's tracepoint may be counted, that
// costs the process next to nothing; else it is traced, which makes each call of its slow, so that
// a busy loop finds more ready at once than usual and its count is on the low side.

#include "bench/harness/workload.h"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace berth::bench {

enum class SystemCallCounting : std::uint8_t { tracepoint, ptrace };

/// How this host counts. Found out once.
SystemCallCounting system_call_counting();

/// Counts the calls of the only thread of `process` from begin() until `done` can be read, but not
/// longer than `timeout`. Nothing where neither way is allowed; then begin() may not be called.
std::optional<std::uint64_t> count_system_calls(pid_t process, int done,
                                                std::chrono::milliseconds timeout,
                                                const std::function<void()>& begin,
                                                SystemCallCounting how = system_call_counting());

/// Tells the reader, once for all workloads of a run, where the counts are on the low side or, when
/// `has_counted` is false, missing.
void note_system_call_counting(bool has_counted, Reporter& reporter);

}  // namespace berth::bench
