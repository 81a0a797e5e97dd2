// SPDX-License-Identifier: Apache-2.0
#pragma once

// An echo server of one program and its client, each in a process of its own. Many pairs may be
// alive at once: each sleeps until it is told to run a slice.
//
//   ┌ driver ┐ SliceRequest ┌ client, on one CPU ┐  TCP, many connections  ┌ server, on another ┐
//   │        │ ───────────▶ │ EchoLoad           │ ◀─────────────────────▶ │ Program::echo      │
//   │        │ ◀─────────── │ reads the server's │                         └────────────────────┘
//   └────────┘  SliceReply  │ CPU clock          │
//                           └────────────────────┘

#include "bench/harness/child_job.h"
#include "bench/harness/cpus.h"
#include "bench/harness/process_figures.h"
#include "bench/harness/shared_object.h"
#include "bench/harness/workload.h"
#include "bench/programs/program.h"
#include "bench/reproducer/latency_histogram.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace berth::bench {

class EchoLoad;

struct EchoScene {
    CpuPair cpus;
    unsigned connections = 1;  // in all
    unsigned active = 1;       // of them, with a message under way
    std::uint64_t seed = 0;
};

struct EchoSlice {
    std::uint64_t message_count = 0;
    std::uint64_t elapsed_ns = 0;
    std::uint64_t server_cpu_ns = 0;
    bool is_intact = true;
};

class EchoPair {
public:
    /// Returns when every connection is made and has been answered once.
    /// **Errors:** what the server or the client answers; timed_out; interrupted.
    static Result<EchoPair> start(const Program& program, const EchoScene& scene,
                                  const Environment& environment);
    EchoPair(EchoPair&&) = default;
    EchoPair& operator=(EchoPair&&) = delete;

    // **Errors:** as start().
    Result<EchoSlice> run_closed(std::chrono::nanoseconds duration);
    Result<EchoSlice> run_open(double rate, std::chrono::nanoseconds duration);
    /// The server's system calls for each message, over one closed slice; nothing where they cannot
    /// be counted.
    Result<std::optional<double>> count_system_calls(std::chrono::nanoseconds duration);

    pid_t server() const noexcept { return server_.process(); }
    std::uint64_t server_allocation_count() const noexcept {
        return server_.report().live_allocation_count;
    }
    /// Of all open slices so far.
    const LatencyHistogram& latencies() const noexcept { return *latencies_; }

private:
    struct Request;
    struct Reply;
    EchoPair(SharedObject<LatencyHistogram> latencies, ChildJob server, ChildJob client,
             Descriptor channel)
        : latencies_(std::move(latencies)),
          server_(std::move(server)),
          client_(std::move(client)),
          channel_(std::move(channel)) {}

    static Result<void> serve_requests(int channel, const std::vector<Address>& server_addresses,
                                       pid_t server, const EchoScene& scene,
                                       LatencyHistogram& latencies);
    static Reply answer(EchoLoad& load, const Request& request, pid_t server,
                        LatencyHistogram& latencies);
    Result<void> send(const Request& request);
    Result<EchoSlice> receive(std::chrono::nanoseconds at_most);
    Result<EchoSlice> ask(const Request& request);
    std::unexpected<Error> silence();

    SharedObject<LatencyHistogram> latencies_;
    ChildJob server_;
    ChildJob client_;  // goes before the server: its connections are reset, and leave nothing
    Descriptor channel_;
};

}  // namespace berth::bench
