// SPDX-License-Identifier: Apache-2.0
#include "bench/transfer/transfer_slice.h"

#include "bench/harness/cpus.h"
#include "bench/harness/loopback.h"
#include "bench/harness/page_buffer.h"
#include "bench/transfer/stream_sender.h"
#include "bench/transfer/stream_sizes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>

#include <optional>

namespace berth::bench {
namespace {

constexpr std::size_t kReceiveSize = 65'536;

Result<void> check(const TransferJob& job) {
    for (std::size_t stream = 0; stream < job.checks.size(); ++stream) {
        const TransferJob::StreamCheck& received = job.checks[stream];
        if (!received.is_intact ||
            received.received_count != stream_size(stream, job.checks.size())) {
            return std::unexpected(Error(Errc::system, "transfer", "100,000 KiB", 0,
                                         "what was received was not what was sent"));
        }
    }
    return {};
}

Result<void> read_streams(const Program& program, const std::vector<Address>& server,
                          unsigned connections, ChildReport& report, const Gate& gate) {
    std::vector<int> sockets;
    std::vector<Descriptor> connected = BERTH_TRY(connect_many(server, connections));
    for (Descriptor& socket : connected) {
        sockets.push_back(socket.release());  // the program closes it
    }
    const PageBuffer buffer(kReceiveSize);
    std::optional<JobClock> clock;
    TransferJob job;
    job.sockets = sockets;
    job.buffer = buffer.bytes();
    job.checks.resize(connections);
    job.progress = &report.values[0];
    job.start = [&] {
        gate.wait();
        clock.emplace(report);
    };
    BERTH_TRY(program.transfer(job));
    if (clock) {
        clock->stop();
    }
    return check(job);
}

Result<void> read_blocking(TransferJob& job) {
    for (const int socket : job.sockets) {
        ::fcntl(socket, F_SETFL, 0);
    }
    job.start();
    for (std::size_t stream = 0; stream < job.sockets.size(); ++stream) {
        ssize_t size = 0;
        while ((size = ::recv(job.sockets[stream], job.buffer.data(), job.buffer.size(), 0)) > 0) {
            job.received(stream, job.buffer.first(static_cast<std::size_t>(size)));
        }
        if (size < 0) {
            return std::unexpected(Error::from_errno(errno, "receive"));
        }
        ::close(job.sockets[stream]);
    }
    return {};
}

}  // namespace

Result<JobSlice> run_transfer_slice(const Program& program, unsigned connections,
                                    const Environment& environment, bool counts) {
    const CpuPair cpus = choose_cpus();
    const Listener listener = BERTH_TRY(listen_on_loopback(environment));
    ChildJob reader =
        BERTH_TRY(ChildJob::start(cpus.server, [&](ChildReport& report, const Gate& gate) {
            return read_streams(program, listener.addresses, connections, report, gate);
        }));
    ChildJob sender = BERTH_TRY(ChildJob::start(cpus.client, [&](ChildReport&, const Gate& gate) {
        const bool has_loop = &program != &blocking_reader();
        return send_streams(listener.socket.get(), connections,
                            has_loop ? SendOrder::in_turn : SendOrder::one_by_one,
                            reader.report().values[0], [&] { gate.wait(); });
    }));
    return run_sides(reader, &sender, counts);
}

const Program& blocking_reader() {
    static const Program reader = {.program = "blocking", .engine = "", .transfer = read_blocking};
    return reader;
}

}  // namespace berth::bench
