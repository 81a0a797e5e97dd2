// SPDX-License-Identifier: Apache-2.0
#pragma once

// One worker of the reproducer: it binds new sockets, remembers them by port and closes the
// neighbours of each when it has them. A bind that finds no port is counted and answered by closing
// one of the worker's own sockets, so that it goes on.

#include "bench/reproducer/held.h"
#include "bench/reproducer/port_choice.h"
#include "bench/reproducer/shared_area.h"

#include <random>

namespace berth::bench {

struct WorkerOptions {
    Protocol protocol = Protocol::udp;
    Family family = Family::ipv4;
    PortRange range;
    double rate = 0;  // binds per second of all workers; 0: as fast as possible
    unsigned worker_count = 1;
    std::size_t held_limit = 0;  // sockets a worker keeps at most; 0: no limit
    std::uint64_t seed = 0;      // of which sockets are closed
};

class ReproducerWorker {
public:
    ReproducerWorker(const WorkerOptions& options, unsigned index, PortChoice& choice,
                     const SharedArea& area);

    /// Until the phase says stop. **Errors:** any failure but "no port" and "no descriptor".
    Result<void> run();

private:
    Result<void> turn();
    Result<void> keep(HeldSocket held);
    void close_one();
    void count(std::atomic<std::uint64_t>& counter) const noexcept;
    void wait_until(std::uint64_t due_ns) const noexcept;
    bool must_stop() const noexcept { return area_.phase() == Phase::stopping; }

    const WorkerOptions options_;
    const unsigned index_;
    PortChoice& choice_;
    const SharedArea& area_;
    WorkerCounters& counters_;
    std::mt19937_64 random_;
    Held<HeldSocket> held_;
};

/// A control: the same number of processes that only compute.
void spin(const SharedArea& area) noexcept;

}  // namespace berth::bench
