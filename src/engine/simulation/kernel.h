// SPDX-License-Identifier: Apache-2.0
#pragma once

// All state of one simulation.
//
//   call table ─▶ Call (counts, faults, trace) ─▶ DescriptorTable ─▶ File: TcpSocket, UdpSocket,
//                                                   │                UnixSocket, PipeEnd, ...
//        wait_for() ─▶ VirtualClock ─▶ events ─▶ TcpNetwork, UdpSocket ─▶ File::wake()
//                                                                          └▶ EpollInstance

#include "src/engine/simulation/byte_queue.h"
#include "src/engine/simulation/descriptor_table.h"
#include "src/engine/simulation/port_registry.h"
#include "src/engine/simulation/routes.h"
#include "src/engine/simulation/seeded_random.h"
#include "src/engine/simulation/simulation_options.h"
#include "src/engine/simulation/tcp_network.h"
#include "src/engine/simulation/trace.h"
#include "src/engine/simulation/unix_names.h"
#include "src/engine/simulation/virtual_clock.h"

#include <cstdint>
#include <string>
#include <utility>

namespace berth::internal::simulated {

// The order matters for the end: files go first, and charge the budget to the last.
struct Kernel {
    explicit Kernel(SimulationOptions given)
        : options(std::move(given)),
          faults(options.faults),
          random(options.seed),
          memory(options.memory_limit),
          trace(options.trace_length),
          routes(options),
          latency(options.latency),
          tcp(*this),
          descriptors(options.descriptor_limit) {}
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    /// Prints the message and the trace, and aborts: the program under test is at fault.
    [[noreturn]] void give_up(const std::string& message) const;

    const SimulationOptions options;
    FaultSchedule faults;
    SeededRandom random;
    MemoryBudget memory;
    Trace trace;
    CallCounts counts;
    Routes routes;
    Nanoseconds latency;
    Nanoseconds lateness{0};            // of what the present call sends
    std::uint64_t fruitless_count = 0;  // calls in a row that achieved nothing
    Nanoseconds fruitless_since{0};
    std::uint64_t broken_pipe_count = 0;  // each would have been a SIGPIPE
    std::uint64_t last_socket_cookie = 0;
    PortRegistry tcp_ports{Protocol::tcp};
    PortRegistry udp_ports{Protocol::udp};
    UnixNames unix_names;
    VirtualClock clock;  // its events may be the last to hold a socket
    TcpNetwork tcp;
    DescriptorTable descriptors;
};

}  // namespace berth::internal::simulated
