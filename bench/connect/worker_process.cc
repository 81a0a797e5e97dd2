// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/worker_process.h"

#include "bench/harness/process.h"

#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>

namespace berth::bench {
namespace internal {

enum class RequestKind : std::uint8_t { fill, measure, exhaust };

struct WorkerRequest {
    RequestKind kind;
    std::uint64_t value;
};

}  // namespace internal

namespace {

using internal::RequestKind;
using Request = internal::WorkerRequest;

struct Reply {
    std::optional<Error> error;
    Exhaustion exhaustion;  // of its calls for `measure`, whole for `exhaust`
};

/// What goes over the socket before the variable parts. Both ends are the same program, so values
/// travel as they lie in memory, an Error's pointers to string literals included.
struct ReplyHeader {
    std::optional<Error> error;
    std::uint64_t total_ns;
    std::int64_t peak_rss_kib;
    StoppedBy stopped_by;
    std::uint64_t succeeded_count;
    std::uint64_t failed_count;
    std::uint64_t failure_size;
};
static_assert(std::is_trivially_copyable_v<ReplyHeader>);

Result<void> send_bytes(int channel, const void* data, std::size_t size) {
    const auto* next = static_cast<const std::byte*>(data);
    while (size > 0) {
        const ssize_t sent = ::send(channel, next, size, MSG_NOSIGNAL);
        if (sent < 0) {
            return std::unexpected(Error::from_errno(errno, "tell", "a benchmark process"));
        }
        next += sent;
        size -= static_cast<std::size_t>(sent);
    }
    return {};
}

Result<void> receive_bytes(int channel, void* data, std::size_t size) {
    auto* next = static_cast<std::byte*>(data);
    while (size > 0) {
        const ssize_t received = ::recv(channel, next, size, 0);
        if (received < 0) {
            return std::unexpected(Error::from_errno(errno, "hear", "a benchmark process"));
        }
        if (received == 0) {
            return std::unexpected(
                Error(Errc::system, "hear", "a benchmark process", 0, "it has ended"));
        }
        next += received;
        size -= static_cast<std::size_t>(received);
    }
    return {};
}

Result<void> send_reply(int channel, const Reply& reply) {
    const Exhaustion& exhaustion = reply.exhaustion;
    const Batch& calls = exhaustion.calls;
    const ReplyHeader header = {reply.error,
                                exhaustion.total_ns,
                                exhaustion.peak_rss_kib,
                                exhaustion.stopped_by,
                                calls.succeeded_ns.size(),
                                calls.failed_ns.size(),
                                calls.first_failure.size()};
    BERTH_TRY(send_bytes(channel, &header, sizeof(header)));
    BERTH_TRY(send_bytes(channel, calls.succeeded_ns.data(), calls.succeeded_ns.size() * 8));
    BERTH_TRY(send_bytes(channel, calls.failed_ns.data(), calls.failed_ns.size() * 8));
    return send_bytes(channel, calls.first_failure.data(), calls.first_failure.size());
}

Result<Reply> receive_reply(int channel) {
    ReplyHeader header{};
    BERTH_TRY(receive_bytes(channel, &header, sizeof(header)));
    Reply reply{header.error, {header.total_ns, header.peak_rss_kib, header.stopped_by, {}}};
    Batch& calls = reply.exhaustion.calls;
    calls.succeeded_ns.resize(header.succeeded_count);
    calls.failed_ns.resize(header.failed_count);
    calls.first_failure.resize(header.failure_size);
    BERTH_TRY(receive_bytes(channel, calls.succeeded_ns.data(), header.succeeded_count * 8));
    BERTH_TRY(receive_bytes(channel, calls.failed_ns.data(), header.failed_count * 8));
    BERTH_TRY(receive_bytes(channel, calls.first_failure.data(), header.failure_size));
    return reply;
}

Result<Exhaustion> answer(Worker& worker, const Request& request) {
    Exhaustion exhaustion;
    switch (request.kind) {
        case RequestKind::fill:
            BERTH_TRY(worker.fill_to(static_cast<unsigned>(request.value)));
            break;
        case RequestKind::measure:
            exhaustion.calls = BERTH_TRY(worker.measure(request.value));
            break;
        case RequestKind::exhaust:
            return worker.exhaust();
    }
    return exhaustion;
}

Reply to_reply(Result<Exhaustion> result) {
    return result ? Reply{std::nullopt, std::move(*result)} : Reply{result.error(), {}};
}

/// Ends when the parent closes its end of the channel.
void run_worker(const WorkerSetup& setup, int channel) {
    Result<Worker> worker = Worker::start(setup);
    Request request{};
    while (receive_bytes(channel, &request, sizeof(request))) {
        const Reply reply = worker ? to_reply(answer(*worker, request)) : Reply{worker.error(), {}};
        if (!send_reply(channel, reply)) {
            return;
        }
    }
}

}  // namespace

Result<WorkerProcess> WorkerProcess::start(const WorkerSetup& setup) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return std::unexpected(Error::from_errno(errno, "open", "a socket pair"));
    }
    Descriptor parent_end(ends[0]);
    Descriptor child_end(ends[1]);
    const pid_t process = BERTH_TRY(fork_helper());
    if (process == 0) {
        parent_end.reset();
        run_worker(setup, child_end.get());
        ::_exit(0);
    }
    return WorkerProcess(setup, std::move(parent_end), process);
}

WorkerProcess::~WorkerProcess() {
    if (process_ <= 0) {
        return;
    }
    if (is_answering_) {
        end_helper(process_);
        return;
    }
    // Not close(): a worker that was forked later has a copy of this end.
    ::shutdown(channel_.get(), SHUT_RDWR);
    wait_for_helper(process_);
}

Result<Exhaustion> WorkerProcess::ask(const Request& request) {
    is_answering_ = true;
    BERTH_TRY(send_bytes(channel_.get(), &request, sizeof(request)));
    Reply reply = BERTH_TRY(receive_reply(channel_.get()));
    is_answering_ = false;
    if (reply.error) {
        return std::unexpected(*reply.error);
    }
    return std::move(reply.exhaustion);
}

Result<void> WorkerProcess::fill_to(unsigned port_count) {
    BERTH_TRY(ask({RequestKind::fill, port_count}));
    return {};
}

Result<Batch> WorkerProcess::measure(std::size_t allocator_index) {
    return BERTH_TRY(ask({RequestKind::measure, allocator_index})).calls;
}

Result<Exhaustion> WorkerProcess::exhaust() { return ask({RequestKind::exhaust, 0}); }

}  // namespace berth::bench
