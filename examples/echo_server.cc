// SPDX-License-Identifier: Apache-2.0
// An echo server in coroutines: what a client sends comes back, until it has sent all. A client
// that does not read what comes back is not read from either.
//
//     echo_server 127.0.0.1:7777
#include <berth/listener.h>
#include <berth/scope.h>
#include <berth/signals.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/timer.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

using namespace std::chrono_literals;

static berth::Task<void> echo(berth::Stream client) {
    while (berth::Lent data = co_await client.receive()) {
        if (!co_await client.send(std::move(data))) break;
    }
}

// Ends when it is cancelled, and all clients with it.
static berth::Task<void> serve(berth::Loop& loop, berth::Listener& listener) {
    berth::Scope clients;
    for (;;) {
        berth::Result<berth::Stream> client = co_await listener.accept();
        if (client) {
            clients.spawn(echo(std::move(*client)));
            continue;
        }
        if (client.error().code() == berth::Errc::cancelled) break;
        // Out of descriptors, say. Whoever wants to connect waits until there are some again.
        std::fprintf(stderr, "%s\n", client.error().message().c_str());
        if (!co_await berth::sleep(loop, berth::within(100ms))) break;
    }
    co_await clients.join();
}

static berth::Result<void> run(const berth::Address& local) {
    berth::Loop loop = BERTH_TRY(berth::Loop::create());
    berth::SignalWatch signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    berth::Listener listener = BERTH_TRY(berth::Listener::open(loop, local));
    std::printf("listening on %s\n", BERTH_TRY(listener.local_endpoint()).to_string().c_str());
    std::fflush(stdout);

    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    return berth::block_on(loop, serve(loop, listener));
}

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s ADDRESS:PORT    (port 0: a free one)\n", argv[0]);
        return 2;
    }
    const berth::Result<berth::Address> local = berth::Address::parse(argv[1]);
    const berth::Result<void> done = local ? run(*local) : std::unexpected(local.error());
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : local ? 1 : 2;
}
