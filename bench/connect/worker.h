// SPDX-License-Identifier: Apache-2.0
#pragma once

// The part of `berth bench connect` that runs in a process and network namespace of its own, so
// that each run starts with no connection, no TIME_WAIT and no memory of the one before.

#include "bench/connect/connection_filler.h"
#include "bench/connect/connector.h"
#include "bench/connect/destinations.h"
#include "bench/connect/exhaustion.h"
#include "bench/guest/guest.h"
#include "bench/harness/workload.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace berth::bench {

struct WorkerSetup {
    Environment environment;
    Family family = Family::ipv4;
    unsigned destination_count = 1;
    FillOrder order = FillOrder::as_connect;
    std::vector<std::string> allocators;
    std::uint64_t seed = 0;
    double seconds = 0;  // of one run until exhaustion
};

class Worker {
public:
    /// Enters the fresh namespace and starts the destinations.
    static Result<Worker> start(WorkerSetup setup);

    /// Forgets all connectors: the next ones learn what is taken then.
    Result<void> fill_to(unsigned port_count);
    /// One batch of connects, each closed again. Empty for a floor without a free port.
    Result<Batch> measure(std::size_t allocator_index);
    /// All connections that the first allocator can get.
    Result<Exhaustion> exhaust();

private:
    Worker(WorkerSetup setup, Destinations destinations);
    Result<Connector*> connector(std::size_t allocator_index);
    Result<Guest*> guest(std::size_t allocator_index);
    ExhaustionLimits limits() const;

    WorkerSetup setup_;
    Destinations destinations_;
    std::unique_ptr<ConnectionFiller> filler_;
    std::unique_ptr<PortTable> table_;
    std::vector<std::unique_ptr<Connector>> connectors_;  // index = allocator; null: not made yet
    std::vector<std::optional<Guest>> guests_;            // the same
};

/// One batch of connects to the destinations in turn, each closed again.
Result<Batch> measure_connects(Connector& connector, const std::vector<Address>& destinations);

/// The program of a guest: `words` are what the worker passes it. Returns the exit status.
int run_connect_guest(const std::vector<std::string>& words);

}  // namespace berth::bench
