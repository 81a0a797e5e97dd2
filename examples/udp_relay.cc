// SPDX-License-Identifier: Apache-2.0
// Passes UDP datagrams of many clients on to one server, and its answers back.
//
//     udp_relay 127.0.0.1:5353 9.9.9.9:53
//
// Each client has a socket of its own towards the server, on a fresh, unguessable port of a port
// table, until nothing has come or gone for IDLE_SECONDS. The socket that listens serves all of
// them: there the datagrams are many, and worth batches.
#include "datagram_batch.h"

#include <berth/datagram_socket.h>
#include <berth/ports.h>
#include <berth/scope.h>
#include <berth/signals.h>
#include <berth/task.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

using namespace std::chrono_literals;

constexpr std::size_t kMostClients = 1000;
constexpr auto kSendTimeout = 10ms;  // what cannot be sent by then is dropped, as routers do

using Key = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;

static Key key_of(const berth::Address& address) { return {address.bytes(), address.port()}; }

struct Client {
    berth::DatagramSocket socket;  // connected to the target
    berth::TimePoint last_used;
};

struct Relay {
    berth::Loop& loop;
    berth::DatagramSocket& socket;
    berth::Address target;
    std::chrono::seconds patience;
    std::map<Key, Client> clients = {};
    std::size_t relayed_count = 0;
    std::size_t dropped_count = 0;
};

static void note(Relay& relay, std::size_t offered, const berth::Result<std::size_t>& sent) {
    relay.relayed_count += sent.value_or(0);
    relay.dropped_count += offered - sent.value_or(0);
}

// What the target answers goes back to the client.
static berth::Task<void> answer(Relay& relay, berth::Address address) {
    Client& client = relay.clients.at(key_of(address));
    DatagramBatch<4> batch;
    for (;;) {
        const berth::TimePoint end = client.last_used + relay.patience;
        const auto count = co_await client.socket.receive_batch(batch.room(), berth::at(end));
        if (!count) {
            const berth::Errc code = count.error().code();
            if (code == berth::Errc::timed_out && client.last_used + relay.patience > end) continue;
            if (code == berth::Errc::refused) continue;  // nobody listens there, as yet
            break;
        }
        client.last_used = relay.loop.now();
        const auto answers = batch.received(*count);
        direct(answers, address);
        const auto sent = co_await relay.socket.send_batch(answers, berth::within(kSendTimeout));
        note(relay, *count, sent);
    }
    relay.clients.erase(key_of(address));
}

static void add_client(Relay& relay, berth::Scope& scope, const berth::Address& address) {
    if (relay.clients.size() == kMostClients) return;
    auto socket = berth::DatagramSocket::open_to(relay.loop, relay.target);
    if (!socket) return void(std::fprintf(stderr, "%s\n", socket.error().message().c_str()));
    relay.clients[key_of(address)] = {std::move(*socket), relay.loop.now()};
    scope.spawn(answer(relay, address));
}

// To the target, datagrams of one client: they often follow each other, and go out together.
static berth::Task<void> pass_on(Relay& relay, berth::Scope& scope,
                                 std::span<berth::Datagram> all) {
    const Key key = key_of(all.front().peer);
    if (!relay.clients.contains(key)) add_client(relay, scope, all.front().peer);
    const auto client = relay.clients.find(key);
    if (client == relay.clients.end()) co_return note(relay, all.size(), 0);
    client->second.last_used = relay.loop.now();
    direct(all, std::nullopt);
    berth::DatagramSocket& socket = client->second.socket;
    note(relay, all.size(), co_await socket.send_batch(all, berth::within(kSendTimeout)));
}

// Ends with an error of the socket that listens, or when it is cancelled.
static berth::Task<berth::Error> relay_all(Relay& relay) {
    berth::Scope clients;
    DatagramBatch<32> batch;
    for (;;) {
        const auto count = co_await relay.socket.receive_batch(batch.room());
        if (!count) {
            clients.cancel();
            co_await clients.join();
            co_return count.error();
        }
        auto rest = batch.received(*count);
        relay.dropped_count += *count - rest.size();
        while (!rest.empty()) {
            const auto is_other = [&rest](auto& it) { return it.peer != rest.front().peer; };
            const auto other = std::ranges::find_if(rest, is_other);
            const auto same = rest.first(static_cast<std::size_t>(other - rest.begin()));
            rest = rest.subspan(same.size());
            co_await pass_on(relay, clients, same);
        }
    }
}

static berth::Result<void> run(const berth::Address& local, const berth::Address& target,
                               std::chrono::seconds patience) {
    auto ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::udp));
    berth::Loop loop = BERTH_TRY(berth::Loop::create({.udp_ports = &ports}));
    auto signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    auto socket = BERTH_TRY(berth::DatagramSocket::open(loop, local));
    std::printf("listening on %s\n", BERTH_TRY(socket.local_endpoint()).to_string().c_str());
    std::fflush(stdout);
    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    Relay relay = {.loop = loop, .socket = socket, .target = target, .patience = patience};
    const berth::Error end = BERTH_TRY(berth::block_on(loop, relay_all(relay)));
    std::printf("relayed %zu, dropped %zu\n", relay.relayed_count, relay.dropped_count);
    if (end.code() != berth::Errc::cancelled) return std::unexpected(end);
    return {};
}

int main(int argc, char** argv) {
    const auto local = berth::Address::parse(argc > 2 ? argv[1] : "");
    const auto target = berth::Address::parse(argc > 2 ? argv[2] : "");
    const int patience = argc == 4 ? std::atoi(argv[3]) : 30;
    if (!local || !target || argc > 4 || patience < 1) {
        std::fprintf(stderr, "usage: %s LISTEN:PORT TARGET:PORT [IDLE_SECONDS]\n", argv[0]);
        return 2;
    }
    const auto done = run(*local, *target, std::chrono::seconds(patience));
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
