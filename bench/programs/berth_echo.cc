// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"

#include <berth/listener.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>

namespace berth::bench {
namespace {

class EchoServer;

/// One connection: what comes goes back, in the memory in which it came.
class EchoSession final : private ReceiveLentOperation {
public:
    EchoSession(EchoServer& server, Stream stream)
        : ReceiveLentOperation(&EchoSession::received),
          server_(server),
          stream_(std::move(stream)) {
        always_completes = true;
    }

    void start() { stream_.receive(*this); }

private:
    static void received(Operation& operation) noexcept {
        static_cast<EchoSession&>(operation).send_back();
    }
    void send_back() noexcept;

    EchoServer& server_;
    Stream stream_;
};

class EchoServer final : private AcceptOperation {
public:
    EchoServer(EchoJob& job, Loop& loop, Listener listener)
        : AcceptOperation(&EchoServer::accepted_some),
          job_(job),
          loop_(loop),
          listener_(std::move(listener)) {
        always_completes = true;
    }

    Result<void> run() {
        listener_.accept(*this, sockets_);
        BERTH_TRY(loop_.run());
        return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
    }

    void ended() noexcept {
        if (++ended_count_ == job_.connection_count) {
            cancel();
        }
    }

private:
    static void accepted_some(Operation& operation) noexcept {
        static_cast<EchoServer&>(operation).open_sessions();
    }
    void open_sessions() noexcept {
        if (has_failed()) {
            if (system_errno() != ECANCELED) {
                failure_ = error();
            }
            return;
        }
        for (const int socket : std::span(sockets_).first(count())) {
            Result<Stream> stream = listener_.take(socket);
            if (!stream) {
                failure_ = stream.error();
                return;
            }
            auto session = std::make_unique<EchoSession>(*this, std::move(*stream));
            session.release()->start();
        }
        listener_.accept(*this, sockets_);
    }

    EchoJob& job_;
    Loop& loop_;
    Listener listener_;
    std::array<int, 64> sockets_;
    unsigned ended_count_ = 0;
    std::optional<Error> failure_;
};

void EchoSession::send_back() noexcept {
    if (data && stream_.write(std::move(data))) {
        start();
        return;
    }
    EchoServer& server = server_;
    delete this;
    server.ended();
}

}  // namespace

Result<void> berth_echo(EchoJob& job, EngineKind engine) {
    Loop loop = BERTH_TRY(Loop::create({.engine = engine}));
    Descriptor listener(::dup(job.listener));
    EchoServer server(job, loop, BERTH_TRY(Listener::adopt(loop, std::move(listener))));
    return server.run();
}

}  // namespace berth::bench
