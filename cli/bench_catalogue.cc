// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_catalogue.h"

#include "bench/bind/allocators.h"
#include "bench/connect/allocators.h"
#include "bench/history/allocators.h"
#include "bench/reproducer/allocators.h"
#include "bench/table/allocators.h"
#include "bench/timers/programs.h"

#include <algorithm>
#include <iterator>

namespace berth::cli {
namespace {

std::span<const std::string_view> no_allocators() { return {}; }

std::vector<BenchEntry> port_benches() {
    return {
        {"bind",
         "One bind() to a fresh port, while more and more ports are taken",
         bench::run_bind,
         bench::bind_allocators,
         {"protocol", "family", "allocator", "occupancy", "repeats"},
         {Protocol::udp, Protocol::tcp},
         "2 minutes"},
        {"connect",
         "TCP connections to a loopback destination until no port is left",
         bench::run_connect,
         bench::connect_allocators,
         {"protocol", "family", "allocator", "occupancy", "destinations", "seconds", "repeats"},
         {Protocol::tcp},
         "5 minutes"},
        {"reproducer",
         "Workers that bind in a loop, and what that does to a program beside them",
         bench::run_reproducer,
         bench::reproducer_allocators,
         {"protocol", "family", "allocator", "workers", "mode", "rate", "hold", "seconds", "probe",
          "repeats"},
         {Protocol::udp, Protocol::tcp},
         "5 minutes"},
        {"table",
         "Taking and releasing a port without a socket, by one and many threads",
         bench::run_table,
         bench::table_allocators,
         {"allocator", "occupancy", "threads", "seconds", "repeats"},
         {},
         "2 minutes"},
        {"history",
         "The kernel's algorithms through time, as models in user space",
         bench::run_history,
         bench::history_allocators,
         {"allocator", "threads", "workers", "seconds", "repeats"},
         {},
         "2 minutes"},
    };
}

std::vector<BenchEntry> loop_benches() {
    return {
        {"transfer",
         "100,000 KiB from a server to a client that reads through its loop",
         bench::run_transfer,
         no_allocators,
         {"program", "engine", "connections", "seconds", "repeats"},
         {},
         "3 minutes"},
        {"echo",
         "Messages of 64 bytes and their way back, over few and very many connections",
         bench::run_echo,
         no_allocators,
         {"program", "engine", "connections", "seconds", "repeats"},
         {},
         "3 minutes"},
        {"idle",
         "What an event costs while most connections say nothing",
         bench::run_idle,
         no_allocators,
         {"program", "engine", "connections", "idle", "seconds", "repeats"},
         {},
         "3 minutes"},
        {"churn",
         "Connections that open and close at once, while more and more ports are taken",
         bench::run_churn,
         no_allocators,
         {"program", "engine", "occupancy", "seconds", "repeats"},
         {},
         "3 minutes"},
        {"datagrams",
         "Datagrams one way: one by one, in batches, and segmented by the kernel",
         bench::run_datagrams,
         no_allocators,
         {"program", "engine", "seconds", "repeats"},
         {},
         "3 minutes"},
        {"wake",
         "Posting to a loop from another thread",
         bench::run_wake,
         no_allocators,
         {"program", "engine", "seconds", "repeats"},
         {},
         "2 minutes"},
        {"timers",
         "A million random deadlines: schedule, cancel, re-arm, fire",
         bench::run_timers,
         no_allocators,
         {"program", "seconds", "repeats"},
         {},
         "6 minutes",
         bench::timer_programs},
        {"memory",
         "What an idle connection takes of a server's memory",
         bench::run_memory,
         no_allocators,
         {"program", "engine", "connections", "seconds", "repeats"},
         {},
         "2 minutes"},
    };
}

std::vector<BenchEntry> all_benches() {
    std::vector<BenchEntry> benches = port_benches();
    std::ranges::move(loop_benches(), std::back_inserter(benches));
    return benches;
}

}  // namespace

const std::vector<BenchEntry>& bench_catalogue() {
    static const std::vector<BenchEntry> benches = all_benches();
    return benches;
}

const BenchEntry* find_bench(std::string_view name) {
    const std::vector<BenchEntry>& entries = bench_catalogue();
    const auto found = std::ranges::find(entries, name, &BenchEntry::name);
    return found == entries.end() ? nullptr : &*found;
}

}  // namespace berth::cli
