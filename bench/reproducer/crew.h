// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/workload.h"
#include "bench/reproducer/scenario.h"
#include "bench/reproducer/shared_area.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::bench {

/// The workers of a scenario, as forked processes or as threads of one.
class Crew {
public:
    /// `scenario`, `environment` and `area` outlive the crew.
    Crew(const Scenario& scenario, const Environment& environment, SharedArea& area,
         std::uint64_t seed) noexcept
        : scenario_(scenario), environment_(environment), area_(area), seed_(seed) {}
    ~Crew() { kill_all(); }
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    Result<void> start();
    /// **Errors:** why a worker gave up, or that one was killed.
    Result<void> check();
    /// Tells the workers to stop and waits for them; those that do not within ten seconds are
    /// killed.
    Result<void> stop();

    /// The most that one process of the crew has had resident. After stop().
    std::int64_t peak_rss_kib() const noexcept { return peak_rss_kib_; }

private:
    Result<void> start_process(unsigned first, unsigned count, int shared_table);
    Result<void> start_guest();
    Result<void> reap();
    void kill_all() noexcept;

    const Scenario& scenario_;
    const Environment& environment_;
    SharedArea& area_;
    std::uint64_t seed_;
    std::vector<pid_t> processes_;
    std::int64_t peak_rss_kib_ = 0;
};

/// The crew as a program of its own under `berth run`: what the driver passes it as words.
/// Returns the exit status.
int run_crew_guest(const std::vector<std::string>& words);

}  // namespace berth::bench
