// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the command line and a workload know of each other.

#include "bench/harness/row.h"

#include <berth/address.h>
#include <berth/error.h>
#include <berth/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::bench {

enum class WorkerMode : std::uint8_t { threads, processes };

/// What the user asked for. An empty list or optional means the workload's own default.
struct Selection {
    std::vector<Protocol> protocols;
    std::vector<Family> families;
    std::vector<std::string> allocators;
    std::vector<double> occupancies_percent;
    std::vector<unsigned> threads;
    std::vector<unsigned> destinations;
    std::vector<std::string> programs;  // of program_names()
    std::vector<std::string> engines;   // of engine_names()
    std::vector<unsigned> connections;  // that carry something, per program
    std::vector<unsigned> idle;         // that do not, beside them
    std::optional<unsigned> workers;
    std::optional<WorkerMode> mode;
    std::optional<double> rate;          // binds per second in all
    std::optional<double> hold_percent;  // of the range, held by the holder
    std::optional<double> seconds;
    std::string probe_command;        // empty: berth's own probe
    std::optional<unsigned> repeats;  // rounds, interleaved
    std::uint64_t seed = 0;           // of orders and shuffles, never of ports
    bool is_headline = false;         // the short form that `berth bench` alone runs
};

/// Where the benchmark runs, decided once before any workload.
enum class Isolation : std::uint8_t {
    network_namespace,       // own network namespace, made as root
    user_network_namespace,  // own user and network namespace, made without privileges
    host                     // neither was allowed: the host's loopback, see Environment::note
};

struct Environment {
    Isolation isolation = Isolation::network_namespace;
    PortRange range;                // ip_local_port_range in force where the workload runs
    unsigned descriptor_limit = 0;  // RLIMIT_NOFILE in force
    bool has_ipv6 = false;
    std::string note;  // why the isolation is less than asked, empty otherwise
};

/// Receives rows as they are ready. Called from one thread.
class Reporter {
public:
    virtual ~Reporter() = default;
    virtual void row(Row row) = 0;
    /// `fraction` 0..1 of this workload; `what` is a few words on what is being measured.
    virtual void progress(double fraction, std::string_view what) = 0;
    /// Something the reader must know: a row left out and why. Makes the run partial (exit 4) when
    /// `is_partial`.
    virtual void note(std::string_view text, bool is_partial) = 0;
    /// True once the user pressed Ctrl-C: return soon with what there is.
    virtual bool is_interrupted() const = 0;
};

using Workload = Result<void> (*)(const Selection&, const Environment&, Reporter&);

// The workloads, each in a folder of bench/ of its name.
Result<void> run_bind(const Selection&, const Environment&, Reporter&);
Result<void> run_connect(const Selection&, const Environment&, Reporter&);
Result<void> run_reproducer(const Selection&, const Environment&, Reporter&);
Result<void> run_table(const Selection&, const Environment&, Reporter&);
Result<void> run_history(const Selection&, const Environment&, Reporter&);
Result<void> run_transfer(const Selection&, const Environment&, Reporter&);
Result<void> run_echo(const Selection&, const Environment&, Reporter&);
Result<void> run_idle(const Selection&, const Environment&, Reporter&);
Result<void> run_churn(const Selection&, const Environment&, Reporter&);
Result<void> run_datagrams(const Selection&, const Environment&, Reporter&);
Result<void> run_wake(const Selection&, const Environment&, Reporter&);
Result<void> run_timers(const Selection&, const Environment&, Reporter&);
Result<void> run_memory(const Selection&, const Environment&, Reporter&);

}  // namespace berth::bench
