// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which CPUs the two sides of a workload run on. Side by side on one CPU they would wait for each
// other, and left alone the scheduler moves them about, which costs more than what is measured.

namespace berth::bench {

/// -1: wherever the scheduler wants.
struct CpuPair {
    int server = -1;
    int client = -1;
};

/// Two different CPUs of those this process may use; none where there is only one.
CpuPair choose_cpus() noexcept;

/// Keeps the calling thread, and those it will start, on `cpu`; does nothing for -1.
void pin_to(int cpu) noexcept;

}  // namespace berth::bench
