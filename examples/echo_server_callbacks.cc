// SPDX-License-Identifier: Apache-2.0
// The echo server of echo_server.cc with callbacks: the same behaviour, no coroutines.
//
//     echo_server_callbacks 127.0.0.1:7777
#include <berth/listener.h>
#include <berth/signals.h>
#include <berth/stream.h>
#include <berth/timer.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

using namespace std::chrono_literals;

// An operation as a member, which calls back into its object.
template <class Op>
using Callback = berth::Handler<Op, std::function<void(Op&)>>;

class Client {
public:
    /// `ended` destroys the client.
    Client(berth::Stream stream, std::function<void(Client*)> ended)
        : stream_(std::move(stream)), ended_(std::move(ended)) {}

    void receive() { stream_.receive(received_); }

private:
    void echo(berth::Lent data) {
        if (!data || !stream_.write(std::move(data))) return ended_(this);
        if (!stream_.is_congested()) return receive();
        stream_.wait_for_room(has_room_);
    }

    berth::Stream stream_;
    std::function<void(Client*)> ended_;
    Callback<berth::ReceiveLentOperation> received_{[this](auto& it) { echo(std::move(it.data)); }};
    Callback<berth::WaitOperation> has_room_{
        [this](auto& it) { it.has_failed() ? ended_(this) : receive(); }};
};

// When it goes, all clients go with it, and call back no more.
class Server {
public:
    Server(berth::Loop& loop, berth::Listener& listener)
        : listener_(listener), pause_(loop, [this] { accept(); }) {}

    void accept() { listener_.accept(accepted_, std::span(&socket_, 1)); }

private:
    void take(const berth::AcceptOperation& accepted) {
        berth::Result<berth::Stream> stream =
            accepted.has_failed() ? std::unexpected(accepted.error()) : listener_.take(socket_);
        if (!stream) {
            // Out of descriptors, say. Whoever wants to connect waits until there are some again.
            std::fprintf(stderr, "%s\n", stream.error().message().c_str());
            return pause_.start(berth::within(100ms));
        }
        auto client = std::make_unique<Client>(std::move(*stream),
                                               [this](Client* ended) { clients_.erase(ended); });
        client->receive();
        clients_.emplace(client.get(), std::move(client));
        accept();
    }

    berth::Listener& listener_;
    int socket_ = -1;
    std::unordered_map<Client*, std::unique_ptr<Client>> clients_;
    Callback<berth::AcceptOperation> accepted_{[this](auto& it) { take(it); }};
    berth::Timer<std::function<void()>> pause_;
};

static berth::Result<void> run(const berth::Address& local) {
    berth::Loop loop = BERTH_TRY(berth::Loop::create());
    berth::SignalWatch signals = BERTH_TRY(berth::SignalWatch::open(loop, {SIGINT, SIGTERM}));
    berth::Listener listener = BERTH_TRY(berth::Listener::open(loop, local));
    std::printf("listening on %s\n", BERTH_TRY(listener.local_endpoint()).to_string().c_str());
    std::fflush(stdout);

    auto stop = berth::handler<berth::SignalOperation>([&loop](auto&) { loop.stop(); });
    signals.wait(stop);
    Server server(loop, listener);
    server.accept();
    return loop.run();
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
