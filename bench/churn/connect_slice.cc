// SPDX-License-Identifier: Apache-2.0
#include "bench/churn/connect_slice.h"

#include "bench/harness/cpus.h"

#include <optional>

namespace berth::bench {
namespace {

/// A table asks the kernel for its connections to a destination once several ports in a row were
/// refused. Sooner or later that happens to every program, and only once: not within the clock.
Result<void> learn_destination(PortTable& table, const Address& server) {
    constexpr int kConnections = 500;
    for (int i = 0; i < kConnections; ++i) {
        const Socket socket = BERTH_TRY(tcp_socket(server.family()));
        ChurnJob::reset_on_close(socket.fd());
        BERTH_TRY(table.connect(socket, server));
    }
    return {};
}

Result<void> connect_and_close(const Program& program, const ConnectScene& scene,
                               ChildReport& report, const Gate& gate) {
    std::optional<PortTable> table;
    if (scene.uses_port_table) {
        table.emplace(BERTH_TRY(PortTable::create(Protocol::tcp)));
        BERTH_TRY(learn_destination(*table, scene.server));
    }
    std::optional<JobClock> clock;
    ChurnJob job;
    job.destination = scene.server;
    job.connection_count = scene.connection_count;
    job.parallel_count = kParallelConnects;
    job.ports = table ? &*table : nullptr;
    job.start = [&] {
        gate.wait();
        clock.emplace(report);
    };
    BERTH_TRY(program.churn(job));
    if (clock) {
        clock->stop();
    }
    report.values[0] = job.connected_count;
    report.values[1] = job.failed_count;
    if (job.connected_count + job.failed_count != scene.connection_count) {
        return std::unexpected(Error(Errc::system, "churn", "connections", 0,
                                     "not every connection was accounted for"));
    }
    return {};
}

}  // namespace

Result<JobSlice> run_connect_slice(const Program& program, const ConnectScene& scene, bool counts) {
    ChildJob client =
        BERTH_TRY(ChildJob::start(choose_cpus().server, [&](ChildReport& report, const Gate& gate) {
            return connect_and_close(program, scene, report, gate);
        }));
    JobSlice slice = BERTH_TRY(run_sides(client, nullptr, counts));
    slice.unit_count = scene.connection_count;
    return slice;
}

}  // namespace berth::bench
