// SPDX-License-Identifier: Apache-2.0
#include "bench/churn/accept_slice.h"

#include "bench/churn/connect_slice.h"
#include "bench/harness/cpus.h"
#include "bench/harness/loopback.h"
#include "bench/harness/process_figures.h"

#include <time.h>

#include <algorithm>

namespace berth::bench {
namespace {

// Connections before the clock starts: by their end the server has made its loop.
constexpr unsigned kWarmUpCount = 32;
constexpr std::chrono::seconds kLoadTimeout{20};

/// The client of both phases: the raw program that costs least.
Result<void> connect_and_close(const Address& server, unsigned count) {
    const auto raw = std::ranges::find_if(
        programs(), [](const Program& program) { return is_raw(program, "epoll"); });
    ChurnJob job;
    job.destination = server;
    job.connection_count = count;
    job.parallel_count = kParallelConnects;
    job.start = [] {};
    return raw->churn(job);
}

/// Until the server has done all it was asked for.
std::uint64_t settled_cpu_ns(pid_t server) {
    constexpr timespec kPause = {0, 2'000'000};
    std::uint64_t before = process_cpu_ns(server);
    for (int i = 0; i < 100; ++i) {
        ::nanosleep(&kPause, nullptr);
        const std::uint64_t now = process_cpu_ns(server);
        if (now == before) {
            break;
        }
        before = now;
    }
    return before;
}

/// Leaves the server's CPU time at the start of the second phase in values[0].
Result<void> drive(const Address& address, pid_t server, unsigned count, ChildReport& report,
                   const Gate& gate) {
    gate.wait();
    BERTH_TRY(connect_and_close(address, kWarmUpCount));
    report.values[0] = settled_cpu_ns(server);
    const JobClock clock(report);
    BERTH_TRY(connect_and_close(address, count));
    clock.stop();
    return {};
}

}  // namespace

Result<JobSlice> run_accept_slice(const Program& program, unsigned connection_count,
                                  const Environment& environment, bool counts) {
    const CpuPair cpus = choose_cpus();
    const Listener listener = BERTH_TRY(listen_on_loopback(environment));
    ChildJob server =
        BERTH_TRY(ChildJob::start(cpus.server, [&](ChildReport& report, const Gate& gate) {
            EchoJob job = {.listener = listener.socket.get(),
                           .connection_count = kWarmUpCount + connection_count};
            gate.wait();
            const JobClock clock(report);
            const Result<void> done = program.echo(job);
            clock.stop();
            report.values[0] = job.connection_count;
            report.values[1] = process_cpu_ns(0);
            return done;
        }));
    ChildJob load =
        BERTH_TRY(ChildJob::start(cpus.client, [&](ChildReport& report, const Gate& gate) {
            return drive(listener.addresses.front(), server.process(), connection_count, report,
                         gate);
        }));
    JobSlice slice = BERTH_TRY(run_sides(server, &load, counts));
    const ChildReport driven = BERTH_TRY(load.wait(kLoadTimeout));
    slice.unit_count = connection_count;
    slice.report.cpu_ns = slice.report.values[1] - driven.values[0];
    slice.report.real_ns = driven.real_ns;
    return slice;
}

}  // namespace berth::bench
