// SPDX-License-Identifier: Apache-2.0
// Passes TCP connections on to another server, both directions at once.
//
//     tcp_proxy 127.0.0.1:5433 10.0.0.7:5432
//
// Its local ports come from a port table: the kernel's search for one gets slow when half of them
// are taken, and a busy proxy is where that happens. A target that has not taken a connection after
// CONNECT_SECONDS is given up.
#include <berth/listener.h>
#include <berth/ports.h>
#include <berth/scope.h>
#include <berth/signals.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/timer.h>
#include <berth/when.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

using namespace std::chrono_literals;

struct Target {
    berth::Address address;
    std::chrono::seconds patience;
};

static void report(const berth::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
}

// Back-pressure: when more than the high watermark waits for a slow receiver, send() waits until
// that has fallen to the low one. Meanwhile nothing is received, so the sender's window closes. A
// connection holds at most so much in each direction, and a piece of at most 64 KiB.
constexpr berth::Watermarks kWatermarks = {.low = 32 * 1024, .high = 128 * 1024};

static berth::Task<void> pump(berth::Stream& from, berth::Stream& to) {
    for (;;) {
        berth::Lent data = co_await from.receive();
        if (data.is_end()) {
            if (to.shut_down_write()) co_return;  // the other direction may go on
            break;
        }
        if (data.is_error() || !co_await to.send(std::move(data))) break;
    }
    // Broken off on one side: so it must be on the other, or what came until now would look whole.
    from.reset();
    to.reset();
}

static berth::Task<void> pass_on(berth::Loop& loop, berth::Stream client, Target target) {
    auto server = co_await berth::connect(loop, target.address, berth::within(target.patience));
    if (!server) {
        report(server.error());
        co_return client.reset();
    }
    for (berth::Stream* stream : {&client, &*server}) {
        // Keep-alive: the kernel notices when a peer has vanished without a word.
        if (!stream->set_keep_alive(true) || !stream->set_watermarks(kWatermarks)) co_return;
    }
    co_await berth::when_all(pump(client, *server), pump(*server, client));
}

// Ends when it is cancelled, and all connections with it.
static berth::Task<void> serve(berth::Loop& loop, berth::Listener& listener, Target target) {
    berth::Scope connections;
    for (;;) {
        auto client = co_await listener.accept();
        if (client) {
            connections.spawn(pass_on(loop, std::move(*client), target));
            continue;
        }
        if (client.error().code() == berth::Errc::cancelled) break;
        // Out of descriptors, say. Whoever wants to connect waits until there are some again.
        report(client.error());
        if (!co_await berth::sleep(loop, berth::within(100ms))) break;
    }
    co_await connections.join();
}

static berth::Result<void> run(const berth::Address& local, const Target& target) {
    berth::PortTable ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::tcp));
    berth::Loop loop = BERTH_TRY(berth::Loop::create({.tcp_ports = &ports}));
    berth::SignalWatch signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    berth::Listener listener = BERTH_TRY(berth::Listener::open(loop, local));
    std::printf("listening on %s\n", BERTH_TRY(listener.local_endpoint()).to_string().c_str());
    std::fflush(stdout);

    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    return berth::block_on(loop, serve(loop, listener, target));
}

int main(int argc, char** argv) {
    const auto local = berth::Address::parse(argc > 2 ? argv[1] : "");
    const auto target = berth::Address::parse(argc > 2 ? argv[2] : "");
    const int patience = argc == 4 ? std::atoi(argv[3]) : 5;
    if (!local || !target || argc > 4 || patience < 1) {
        std::fprintf(stderr, "usage: %s LISTEN:PORT TARGET:PORT [CONNECT_SECONDS]\n", argv[0]);
        return 2;
    }
    const auto done = run(*local, {*target, std::chrono::seconds(patience)});
    if (!done) report(done.error());
    return done ? 0 : 1;
}
