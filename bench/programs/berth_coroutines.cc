// SPDX-License-Identifier: Apache-2.0
// The programs over berth in coroutines.
#include "bench/programs/berth_jobs.h"

#include <berth/listener.h>
#include <berth/scope.h>
#include <berth/stream.h>
#include <berth/task.h>

#include <optional>
#include <utility>

namespace berth::bench {
namespace {

struct Server {
    explicit Server(EchoJob& of) : job(of) {}

    EchoJob& job;
    Scope clients;
    unsigned ended_count = 0;
};

Task<void> serve_one(Server& server, Scope& acceptors, Stream client) {
    while (Lent data = co_await client.receive()) {
        if (!co_await client.send(std::move(data))) {
            break;
        }
    }
    if (++server.ended_count == server.job.connection_count) {
        acceptors.cancel();
    }
}

Task<void> accept_all(Server& server, Scope& acceptors, Listener& listener,
                      std::optional<Error>& failure) {
    for (;;) {
        Result<Stream> client = co_await listener.accept();
        if (!client) {
            if (client.error().code() != Errc::cancelled) {
                failure = client.error();
            }
            co_return;
        }
        server.clients.spawn(serve_one(server, acceptors, std::move(*client)));
    }
}

Task<Result<void>> serve(EchoJob& job, Listener& listener) {
    Server server(job);
    Scope acceptors;
    std::optional<Error> failure;
    acceptors.spawn(accept_all(server, acceptors, listener, failure));
    co_await acceptors.join();
    co_await server.clients.join();
    if (failure) {
        co_return std::unexpected(*failure);
    }
    co_return {};
}

}  // namespace

Result<void> berth_coroutine_echo(EchoJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    Listener listener = BERTH_TRY(Listener::adopt(loop, Descriptor(::dup(job.listener))));
    return block_on(loop, serve(job, listener));
}

namespace {

Task<void> read_all(TransferJob& job, std::size_t number, Stream stream,
                    std::optional<Error>& failure) {
    for (;;) {
        const Lent data = co_await stream.receive();
        if (data.is_error()) {
            failure = data.error();
        }
        if (!data) {
            co_return;
        }
        job.received(number, data.bytes());
    }
}

}  // namespace

Result<void> berth_coroutine_transfer(TransferJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    std::optional<Error> failure;
    Scope readers;
    job.start();
    for (std::size_t number = 0; number < job.sockets.size(); ++number) {
        Result<Stream> stream = Stream::adopt(loop, Descriptor(job.sockets[number]));
        if (!stream) {
            failure = stream.error();
            readers.cancel();
            break;
        }
        readers.spawn(read_all(job, number, std::move(*stream), failure));
    }
    BERTH_TRY(block_on(loop, readers.join()));
    return failure ? Result<void>(std::unexpected(*failure)) : Result<void>{};
}

namespace {

struct CoroutineChurn {
    ChurnJob& job;
    Loop& loop;
    unsigned started_count = 0;
};

Task<void> connect_and_close(CoroutineChurn& churn) {
    while (churn.started_count < churn.job.connection_count) {
        ++churn.started_count;
        const ConnectOptions options{.local = std::nullopt, .no_delay = false};
        Result<Stream> stream = co_await connect(churn.loop, churn.job.destination, {}, options);
        if (stream) {
            ChurnJob::reset_on_close(stream->fd());
            churn.job.connected();
        } else {
            churn.job.failed(stream.error().system_errno());
        }
    }
}

}  // namespace

Result<void> berth_coroutine_churn(ChurnJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine, .tcp_ports = job.ports}));
    CoroutineChurn churn{job, loop};
    Scope connectors;
    job.start();
    for (unsigned i = 0; i < job.parallel_count; ++i) {
        connectors.spawn(connect_and_close(churn));
    }
    return block_on(loop, connectors.join());
}

}  // namespace berth::bench
