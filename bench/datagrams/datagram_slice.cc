// SPDX-License-Identifier: Apache-2.0
#include "bench/datagrams/datagram_slice.h"

#include "bench/datagrams/datagram_sockets.h"
#include "bench/harness/cpus.h"
#include "bench/harness/statistics.h"
#include "bench/programs/jobs.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

namespace berth::bench {
namespace {

constexpr std::chrono::seconds kOtherTimeout{10};

Result<void> run_job(const Program& program, const DatagramScene& scene, int socket, bool is_sender,
                     ChildReport& report, const Gate& gate) {
    std::optional<JobClock> clock;
    DatagramsJob job;
    job.socket = socket;
    job.mode = scene.mode;
    job.is_sender = is_sender;
    job.datagram_size = scene.datagram_size;
    job.datagram_count = scene.datagram_count;
    job.start = [&] {
        gate.wait();
        clock.emplace(report);
    };
    BERTH_TRY(program.datagrams(job));
    if (clock) {
        clock->stop();
    }
    report.values[0] = is_sender ? job.next_number : scene.datagram_count;
    report.values[1] = job.received_count;
    if (!job.is_intact) {
        return std::unexpected(Error(Errc::system, "receive", "datagrams", 0,
                                     "what was received was not what was sent"));
    }
    return {};
}

const Program& raw_epoll() {
    return *std::ranges::find_if(programs(),
                                 [](const Program& program) { return is_raw(program, "epoll"); });
}

/// Sends the datagram that ends the flow until the receiver has ended: it is lost as long as the
/// receiver's buffer is full.
void end_flow(int sender, const ChildJob& receiver, std::size_t datagram_size) {
    constexpr std::uint64_t kPatienceNs = 15'000'000'000;
    std::vector<std::byte> last(datagram_size);
    write_last_datagram(last);
    pollfd entry = {receiver.end_descriptor(), POLLIN, 0};
    const std::uint64_t start_ns = now_ns();
    do {
        static_cast<void>(::send(sender, last.data(), last.size(), MSG_NOSIGNAL));
    } while (::poll(&entry, 1, 1) == 0 && now_ns() - start_ns < kPatienceNs);
}

/// The sender's side as the other one: it also ends the flow, as nobody else can in time.
Result<void> send_and_end(const DatagramScene& scene, int socket, const ChildJob& receiver,
                          ChildReport& report, const Gate& gate) {
    BERTH_TRY(run_job(raw_epoll(), scene, socket, true, report, gate));
    end_flow(socket, receiver, scene.datagram_size);
    return {};
}

Result<JobSlice> measure_receiver(const Program& program, const DatagramScene& scene,
                                  const DatagramSockets& sockets, bool counts) {
    const CpuPair cpus = choose_cpus();
    // The other side calls in batches whatever the mode: it should be the faster one.
    DatagramScene others = scene;
    others.mode = scene.mode == DatagramMode::single ? DatagramMode::batched : scene.mode;
    ChildJob receiver =
        BERTH_TRY(ChildJob::start(cpus.server, [&](ChildReport& report, const Gate& gate) {
            return run_job(program, scene, sockets.receiver.get(), false, report, gate);
        }));
    ChildJob sender =
        BERTH_TRY(ChildJob::start(cpus.client, [&](ChildReport& report, const Gate& gate) {
            return send_and_end(others, sockets.sender.get(), receiver, report, gate);
        }));
    JobSlice slice = BERTH_TRY(run_sides(receiver, &sender, counts));
    slice.unit_count = static_cast<double>(slice.report.values[1]);
    return slice;
}

Result<JobSlice> measure_sender(const Program& program, const DatagramScene& scene,
                                const DatagramSockets& sockets, bool counts) {
    const CpuPair cpus = choose_cpus();
    DatagramScene others = scene;
    others.mode = scene.mode == DatagramMode::single ? DatagramMode::batched : scene.mode;
    ChildJob receiver =
        BERTH_TRY(ChildJob::start(cpus.client, [&](ChildReport& report, const Gate& gate) {
            return run_job(raw_epoll(), others, sockets.receiver.get(), false, report, gate);
        }));
    ChildJob sender =
        BERTH_TRY(ChildJob::start(cpus.server, [&](ChildReport& report, const Gate& gate) {
            return run_job(program, scene, sockets.sender.get(), true, report, gate);
        }));
    JobSlice slice = BERTH_TRY(run_sides(sender, &receiver, counts));
    end_flow(sockets.sender.get(), receiver, scene.datagram_size);
    const ChildReport received = BERTH_TRY(receiver.wait(kOtherTimeout));
    slice.unit_count = static_cast<double>(slice.report.values[0]);
    slice.report.values[1] = received.values[1];
    return slice;
}

}  // namespace

Result<JobSlice> run_datagram_slice(const Program& program, const DatagramScene& scene,
                                    bool counts) {
    const DatagramSockets sockets =
        BERTH_TRY(open_datagram_sockets(scene.mode, scene.datagram_size));
    return scene.is_sender ? measure_sender(program, scene, sockets, counts)
                           : measure_receiver(program, scene, sockets, counts);
}

}  // namespace berth::bench
