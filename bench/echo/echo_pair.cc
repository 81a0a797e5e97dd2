// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/echo_pair.h"

#include "bench/echo/echo_load.h"
#include "bench/harness/loopback.h"
#include "bench/harness/process.h"
#include "bench/harness/system_call_count.h"

#include <poll.h>
#include <sys/socket.h>
#include <cerrno>

#include <iterator>
#include <type_traits>

namespace berth::bench {

struct EchoPair::Request {
    std::chrono::nanoseconds duration{};
    double rate = 0;  // 0: a closed loop
};

struct EchoPair::Reply {
    EchoSlice slice;
    std::optional<Error> error;  // its strings are literals, at the same addresses on both sides
};

namespace {

constexpr std::chrono::seconds kSetupTimeout{60};
constexpr std::chrono::seconds kSliceTimeout{20};

/// Of a child that has gone, whatever its report says.
std::unexpected<Error> error_of(ChildJob& child) {
    constexpr std::chrono::milliseconds kAlreadyGone{100};
    const Result<ChildReport> report = child.wait(kAlreadyGone);
    return std::unexpected(
        report ? Error(Errc::system, "run", "an echo server or client", 0, "it has ended too early")
               : report.error());
}

bool has_ended(const ChildJob& child) {
    pollfd entry = {child.end_descriptor(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

Result<EchoPair> EchoPair::start(const Program& program, const EchoScene& scene,
                                 const Environment& environment) {
    Listener listener = BERTH_TRY(listen_on_loopback(environment));
    SharedObject<LatencyHistogram> latencies = BERTH_TRY(SharedObject<LatencyHistogram>::create());
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return std::unexpected(Error::from_errno(errno, "open", "a socket pair"));
    }
    Descriptor driver_end(ends[0]);
    const Descriptor client_end(ends[1]);
    EchoJob job = {.listener = listener.socket.get(),
                   .connection_count = scene.connections,
                   .message_size = kMessageSize};
    ChildJob server = BERTH_TRY(
        ChildJob::start(scene.cpus.server, [&](ChildReport&, const Gate&) -> Result<void> {
            // Other pairs are alive: a program whose cost, or ability, depends on the highest
            // descriptor would be worse off the later it was started.
            close_inherited({job.listener});
            return program.echo(job);
        }));
    ChildJob client = BERTH_TRY(
        ChildJob::start(scene.cpus.client, [&](ChildReport&, const Gate&) -> Result<void> {
            driver_end.reset();
            return serve_requests(client_end.get(), listener.addresses, server.process(), scene,
                                  *latencies);
        }));
    EchoPair pair(std::move(latencies), std::move(server), std::move(client),
                  std::move(driver_end));
    BERTH_TRY(pair.receive(kSetupTimeout));
    return pair;
}

Result<void> EchoPair::serve_requests(int channel, const std::vector<Address>& server_addresses,
                                      pid_t server, const EchoScene& scene,
                                      LatencyHistogram& latencies) {
    const std::unique_ptr<EchoLoad> load =
        BERTH_TRY(EchoLoad::connect(server_addresses, scene.connections, scene.active, scene.seed));
    Reply reply;
    Request request;
    while (::send(channel, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply) &&
           ::recv(channel, &request, sizeof(request), 0) == sizeof(request)) {
        reply = answer(*load, request, server, latencies);
    }
    return {};
}

EchoPair::Reply EchoPair::answer(EchoLoad& load, const Request& request, pid_t server,
                                 LatencyHistogram& latencies) {
    const std::uint64_t before_ns = process_cpu_ns(server);
    const Result<LoadOutcome> outcome =
        request.rate > 0 ? load.run_open(request.rate, request.duration, latencies)
                         : load.run_closed(request.duration);
    if (!outcome) {
        return {{}, outcome.error()};
    }
    return {{outcome->message_count, outcome->elapsed_ns, process_cpu_ns(server) - before_ns,
             outcome->is_intact},
            std::nullopt};
}

Result<EchoSlice> EchoPair::run_closed(std::chrono::nanoseconds duration) {
    return ask({duration, 0});
}

Result<EchoSlice> EchoPair::run_open(double rate, std::chrono::nanoseconds duration) {
    return ask({duration, rate});
}

Result<std::optional<double>> EchoPair::count_system_calls(std::chrono::nanoseconds duration) {
    Result<void> sent = std::unexpected(Error(Errc::unsupported, "count", "system calls"));
    const std::optional<std::uint64_t> count = bench::count_system_calls(
        server_.process(), channel_.get(), kSliceTimeout, [&] { sent = send({duration, 0}); });
    if (!sent) {
        return std::optional<double>();
    }
    const EchoSlice slice = BERTH_TRY(receive(kSliceTimeout));
    return count && slice.message_count > 0
               ? std::optional(static_cast<double>(*count) /
                               static_cast<double>(slice.message_count))
               : std::nullopt;
}

Result<EchoSlice> EchoPair::ask(const Request& request) {
    BERTH_TRY(send(request));
    return receive(request.duration + kSliceTimeout);
}

Result<void> EchoPair::send(const Request& request) {
    static_assert(std::is_trivially_copyable_v<Request>);
    if (::send(channel_.get(), &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) {
        return silence();
    }
    return {};
}

Result<EchoSlice> EchoPair::receive(std::chrono::nanoseconds at_most) {
    static_assert(std::is_trivially_copyable_v<Reply>);
    pollfd entries[] = {{channel_.get(), POLLIN, 0},
                        {client_.end_descriptor(), POLLIN, 0},
                        {server_.end_descriptor(), POLLIN, 0}};
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(at_most);
    const int count = ::poll(entries, std::size(entries), static_cast<int>(timeout.count()));
    if (count < 0) {
        return std::unexpected(Error(errno == EINTR ? Errc::interrupted : Errc::system, "wait for",
                                     "an echo client", errno));
    }
    Reply reply;
    if (entries[0].revents == 0 || ::recv(channel_.get(), &reply, sizeof(reply), MSG_DONTWAIT) !=
                                       static_cast<ssize_t>(sizeof(reply))) {
        return silence();
    }
    if (reply.error) {
        // The server's own reason says more than what its client saw.
        return has_ended(server_) ? error_of(server_) : std::unexpected(*reply.error);
    }
    return reply.slice;
}

std::unexpected<Error> EchoPair::silence() {
    if (has_ended(server_)) {
        return error_of(server_);
    }
    return has_ended(client_) ? error_of(client_)
                              : std::unexpected(Error(Errc::timed_out, "wait for", "an echo client",
                                                      0, "it does not answer"));
}

}  // namespace berth::bench
