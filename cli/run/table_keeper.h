// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps a run's tables true while its programs use them: holds them against the kernel's list of
// sockets every two seconds, or sooner when a program found one full.

#include "cli/run/run_files.h"

#include <cstdint>
#include <memory>

namespace berth::cli {

class TableKeeper {
public:
    explicit TableKeeper(RunFiles& files);

    /// Does what is due. `is_asked_for`: a program has found no port.
    void keep(bool is_asked_for);
    /// Until keep() has something to do.
    std::uint64_t idle_ms() const;

private:
    static constexpr std::uint64_t kIntervalMs = 2'000;
    static constexpr std::uint64_t kShortestPauseMs = 100;
    /// At most this part of the time goes into it.
    static constexpr std::uint64_t kShare = 20;

    void refresh_destinations();

    RunFiles& files_;
    std::unique_ptr<internal::DestinationPool::Snapshot[]> snapshots_;
    std::uint64_t due_ms_;
    std::uint64_t not_before_ms_;
};

}  // namespace berth::cli
