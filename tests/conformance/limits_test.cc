// SPDX-License-Identifier: Apache-2.0

// The limits of the host: very many sockets, no descriptor left, nobody to be reached, a wall clock
// that jumps.

#include "src/engine/simulation/simulation.h"
#include "tests/conformance/engines.h"
#include "tests/support/network_namespace.h"

#include <berth/datagram_socket.h>
#include <berth/timer.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;
using internal::CallKind;
using internal::Simulation;

/// Sets the soft limit of open files, and restores it.
class DescriptorLimit {
public:
    DescriptorLimit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
    ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    DescriptorLimit(const DescriptorLimit&) = delete;
    DescriptorLimit& operator=(const DescriptorLimit&) = delete;

    bool set(rlim_t count) {
        const rlimit limit = {std::max(before_.rlim_cur, count), before_.rlim_max};
        return count <= before_.rlim_max && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
    }
    /// No further descriptor can be had.
    bool exhaust() {
        const int next = ::dup(0);
        ::close(next);
        const rlimit none = {static_cast<rlim_t>(next), before_.rlim_max};
        return ::setrlimit(RLIMIT_NOFILE, &none) == 0;
    }

private:
    rlimit before_{};
};

class LimitsTest : public EngineTest {
protected:
    static constexpr std::size_t kPairs = 9'500;  // 19,000 sockets

    struct Client {
        Stream stream;
        Watched<ConnectOperation> connect;
    };
    struct Server {
        Stream stream;
        Watched<ReceiveLentOperation> receive;
    };

    void connect_many(const Listener& listener, std::size_t count);
    void accept_many(Listener& listener, std::size_t count);

    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<std::unique_ptr<Server>> servers_;
};

void LimitsTest::connect_many(const Listener& listener, std::size_t count) {
    const std::size_t before = clients_.size();
    for (std::size_t i = 0; i < count; ++i) {
        Client& client = *clients_.emplace_back(std::make_unique<Client>());
        Result<Stream> stream = Stream::open(loop(), *listener.local_endpoint());
        ASSERT_TRUE(stream.has_value()) << stream.error().message();
        client.stream = std::move(*stream);
        client.stream.connect(client.connect);
    }
    run_until([&] {
        return std::all_of(clients_.begin() + static_cast<std::ptrdiff_t>(before), clients_.end(),
                           [](auto& one) { return one->connect.completion_count == 1; });
    });
}

void LimitsTest::accept_many(Listener& listener, std::size_t count) {
    std::array<int, 64> sockets{};
    Watched<AcceptOperation> accept;
    const std::size_t wanted = servers_.size() + count;
    accept.then = [&] {
        ASSERT_FALSE(accept.has_failed()) << accept.error().message();
        for (const int socket : std::span(sockets).first(accept.count())) {
            servers_.push_back(std::make_unique<Server>());
            servers_.back()->stream = listener.take(socket).value();
        }
        if (servers_.size() < wanted) {
            listener.accept(accept, sockets);
        }
    };
    listener.accept(accept, sockets);
    run_until([&] { return servers_.size() >= wanted; });
}

TEST_P(LimitsTest, NineteenThousandSockets) {
    DescriptorLimit limit;
    if (!limit.set(2 * kPairs + 200)) {
        GTEST_SKIP() << "the hard limit of open files is too low (ulimit -Hn)";
    }
    constexpr std::size_t kAtOnce = 500;
    Listener listener =
        Listener::open(loop(), Address::loopback(Family::ipv4), {.backlog = 1000}).value();
    while (clients_.size() < kPairs && !HasFatalFailure()) {
        connect_many(listener, kAtOnce);
        accept_many(listener, kAtOnce);
    }
    ASSERT_EQ(servers_.size(), kPairs);
    EXPECT_EQ(loop().statistics().socket_count, 2 * kPairs + 1);
    std::size_t received = 0;
    for (const auto& server : servers_) {
        server->receive.then = [&received, &server = *server] {
            received += server.receive.data.size() == 2 ? 1U : 0U;
            server.receive.data.give_back();
        };
        server->stream.receive(server->receive);
    }
    run_ready();
    for (const auto& client : clients_) {
        ASSERT_TRUE(client->stream.write(bytes_of("hi")).has_value());
    }
    run_until([&] { return received == kPairs; });
    // And a single one among them all.
    Server& last = *servers_.back();
    last.stream.receive(last.receive);
    for (const auto& client : clients_) {
        ASSERT_TRUE(client->stream.write(bytes_of("hi")).has_value());
    }
    run_until([&] { return received == kPairs + 1; });
}

TEST_P(LimitsTest, OutOfDescriptorsInTheMiddleDisturbsNobody) {
    auto [client, server] = connect_pair();
    const Endpoint anywhere = Address::loopback(Family::ipv4);
    {
        DescriptorLimit limit;
        if (Simulation* simulation = Simulation::active()) {
            simulation->faults().fail({.kind = CallKind::socket, .times = internal::kAlways},
                                      EMFILE);
        } else {
            ASSERT_TRUE(limit.exhaust());
        }
        EXPECT_EQ(Stream::open(loop(), anywhere).error().code(), Errc::descriptors_exhausted);
        EXPECT_EQ(Listener::open(loop(), anywhere).error().code(), Errc::descriptors_exhausted);
        EXPECT_EQ(DatagramSocket::open(loop(), anywhere).error().code(),
                  Errc::descriptors_exhausted);
        ASSERT_TRUE(client.write(bytes_of("still here")).has_value());
        EXPECT_EQ(text_of(receive_exactly(server, 10)), "still here");
    }
    if (Simulation* simulation = Simulation::active()) {
        simulation->faults().clear();
    }
    EXPECT_TRUE(Listener::open(loop(), anywhere).has_value());
}

TEST_P(LimitsTest, WallClockStepsMoveNoTimer) {
    Simulation* simulation = Simulation::active();
    if (simulation == nullptr) {
        GTEST_SKIP() << "the clock of the host is not a test's";
    }
    std::string order;
    Timer first(loop(), [&] { order += '1'; });
    Timer second(loop(), [&] { order += '2'; });
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    const TimePoint start = loop().now();
    first.start(within(10ms));
    second.start(within(500us));
    server.receive(receive, within(20ms));
    run_ready();
    simulation->step_wall_clock(48h);
    run_ready();
    EXPECT_EQ(order, "");
    run_until([&] { return order == "2"; });
    simulation->step_wall_clock(-96h);
    run_until([&] { return order == "21"; });
    EXPECT_EQ(receive.completion_count, 0U);
    EXPECT_GE(loop().now() - start, 10ms);
    EXPECT_LT(loop().now() - start, 12ms);
    simulation->step_wall_clock(24h);
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.data.error().code(), Errc::timed_out);
    EXPECT_LT(loop().now() - start, 22ms);
}

class UnreachableTest : public EngineTest {
protected:
    /// Runs `body` where there is no way but to this host, with a loop of this engine.
    void without_routes(const std::function<void(Loop&)>& body) {
        if (is_simulated()) {
            body(loop());
            return;
        }
        in_network_namespace([&] {
            Result<Loop> inside = make_loop();
            ASSERT_TRUE(inside.has_value()) << inside.error().message();
            body(*inside);
        });
    }
    static void run_until_complete(Loop& loop, const unsigned& completion_count) {
        const TimePoint latest = loop.now() + 300s;
        while (completion_count == 0 && loop.now() < latest) {
            ASSERT_TRUE(loop.run_once(at(latest)).has_value());
        }
        ASSERT_EQ(completion_count, 1U);
    }
    static Error connect_error(Loop& loop, const Endpoint& remote, Deadline deadline = {}) {
        Stream stream = Stream::open(loop, remote).value();
        Watched<ConnectOperation> connect;
        stream.connect(connect, deadline);
        run_until_complete(loop, connect.completion_count);
        EXPECT_TRUE(connect.has_failed());
        return connect.error();
    }
    // TEST-NET-1 of RFC 5737: nobody's.
    const Endpoint nowhere_ = Address::parse("192.0.2.1:9").value();
};

TEST_P(UnreachableTest, ConnectSaysSo) {
    without_routes([&](Loop& loop) {
        const Error error = connect_error(loop, nowhere_);
        EXPECT_EQ(error.code(), Errc::unreachable);
        EXPECT_THAT(error.message(), testing::HasSubstr("192.0.2.1"));
    });
}

TEST_P(UnreachableTest, DatagramsSaySoAndTheSocketGoesOn) {
    without_routes([&](Loop& loop) {
        DatagramSocket socket =
            DatagramSocket::open(loop, Endpoint(Address::any(Family::ipv4))).value();
        Watched<SendToOperation> lost;
        socket.send(lost, bytes_of("anybody?"), nowhere_);
        run_until_complete(loop, lost.completion_count);
        EXPECT_EQ(lost.error().code(), Errc::unreachable);
        const Address here =
            Address::loopback(Family::ipv4, socket.local_endpoint()->address().port());
        Watched<SendToOperation> send;
        socket.send(send, bytes_of("me"), here);
        run_until_complete(loop, send.completion_count);
        EXPECT_FALSE(send.has_failed()) << send.error().message();
        EXPECT_FALSE(DatagramSocket::open_to(loop, nowhere_).has_value());
    });
}

TEST_P(UnreachableTest, HostThatDoesNotAnswer) {
    Simulation* simulation = Simulation::active();
    if (simulation == nullptr) {
        GTEST_SKIP() << "it takes a router that says so";
    }
    simulation->set_route(nowhere_.address(), internal::Route::no_host);
    EXPECT_EQ(connect_error(loop(), nowhere_).code(), Errc::unreachable);
    simulation->set_route(nowhere_.address(), internal::Route::black_hole);
    EXPECT_EQ(connect_error(loop(), nowhere_, within(50ms)).code(), Errc::timed_out);
    EXPECT_EQ(connect_error(loop(), nowhere_).code(), Errc::timed_out);
}

BERTH_OVER_EVERY_ENGINE_OF(LimitsTest);
BERTH_OVER_EVERY_ENGINE_OF(UnreachableTest);

}  // namespace
}  // namespace berth::test
