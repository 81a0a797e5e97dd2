// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulation.h"
#include "tests/conformance/engines.h"

#include <berth/datagram_socket.h>

#include <sys/resource.h>

#include <array>
#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class ListenerTest : public EngineTest {
protected:
    Listener listen(const ListenOptions& options = {}) {
        return Listener::open(loop(), Address::loopback(Family::ipv4), options).value();
    }

    struct Client {
        Stream stream;
        Watched<ConnectOperation> connect;
    };
    std::unique_ptr<Client> connect_to(const Listener& listener) {
        auto client = std::make_unique<Client>();
        client->stream = Stream::open(loop(), *listener.local_endpoint()).value();
        client->stream.connect(client->connect);
        return client;
    }
};

TEST_P(ListenerTest, AcceptsMany) {
    Listener listener = listen();
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; ++i) {
        clients.push_back(connect_to(listener));
    }
    run_until([&] { return clients.back()->connect.completion_count == 1; });
    std::vector<Stream> streams;
    std::array<int, 8> sockets;
    Watched<AcceptOperation> accept;
    accept.then = [&] {
        ASSERT_FALSE(accept.has_failed());
        ASSERT_GE(accept.count(), 1U);
        ASSERT_LE(accept.count(), sockets.size());
        for (const int socket : std::span(sockets).first(accept.count())) {
            streams.push_back(listener.take(socket).value());
        }
        if (streams.size() < clients.size()) {
            listener.accept(accept, sockets);
        }
    };
    listener.accept(accept, sockets);
    run_until([&] { return streams.size() == clients.size(); });
}

TEST_P(ListenerTest, CloseEndsAPendingAccept) {
    Listener listener = listen();
    int socket = -1;
    Watched<AcceptOperation> accept;
    listener.accept(accept, std::span(&socket, 1));
    run_ready();
    listener.close();
    run_until([&] { return accept.completion_count == 1; });
    EXPECT_EQ(accept.error().code(), Errc::cancelled);
}

TEST_P(ListenerTest, ConnectionsThatNobodyAcceptedAreReset) {
    Listener listener = listen();
    auto client = connect_to(listener);
    run_until([&] { return client->connect.completion_count == 1; });
    listener.close();
    EXPECT_EQ(receive_all(client->stream).system_errno, ECONNRESET);
}

TEST_P(ListenerTest, AcceptHasADeadline) {
    Listener listener = listen();
    int socket = -1;
    Watched<AcceptOperation> accept;
    listener.accept(accept, std::span(&socket, 1), within(10ms));
    run_until([&] { return accept.completion_count == 1; });
    EXPECT_EQ(accept.error().code(), Errc::timed_out);
    auto client = connect_to(listener);
    listener.accept(accept, std::span(&socket, 1));
    run_until([&] { return accept.completion_count == 2; });
    ASSERT_FALSE(accept.has_failed());
    EXPECT_TRUE(listener.take(socket).has_value());
}

TEST_P(ListenerTest, OutOfDescriptorsIsAnErrorAndLosesNobody) {
    Listener listener = listen();
    auto client = connect_to(listener);
    run_until([&] { return client->connect.completion_count == 1; });
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none = {static_cast<rlim_t>(::dup(0)), before.rlim_max};
    ::close(static_cast<int>(none.rlim_cur));
    internal::Simulation* simulation = internal::Simulation::active();
    if (simulation != nullptr) {
        const auto always = internal::kAlways;
        simulation->faults().fail({.kind = internal::CallKind::accept4, .times = always}, EMFILE);
    } else {
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    int socket = -1;
    Watched<AcceptOperation> accept;
    listener.accept(accept, std::span(&socket, 1));
    run_until([&] { return accept.completion_count == 1; });
    EXPECT_EQ(accept.error().code(), Errc::descriptors_exhausted);
    EXPECT_THAT(accept.error().message(), testing::HasSubstr("ulimit -n"));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    if (simulation != nullptr) {
        simulation->faults().clear();
    }
    listener.accept(accept, std::span(&socket, 1));
    run_until([&] { return accept.completion_count == 2; });
    ASSERT_FALSE(accept.has_failed()) << accept.error().message();
    Stream server = listener.take(socket).value();
    ASSERT_TRUE(server.write(bytes_of("welcome")).has_value());
    EXPECT_EQ(text_of(receive_exactly(client->stream, 7)), "welcome");
}

TEST_P(ListenerTest, ConnectBeyondTheBacklogTimesOut) {
    Listener listener = listen({.backlog = 1});
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<Client>());
        clients.back()->stream = Stream::open(loop(), *listener.local_endpoint()).value();
        clients.back()->stream.connect(clients.back()->connect, within(50ms));
    }
    run_until([&] { return clients.back()->connect.completion_count == 1; });
    EXPECT_EQ(clients.back()->connect.error().code(), Errc::timed_out);
}

TEST_P(ListenerTest, PortThatIsTakenSaysSo) {
    Listener listener = listen();
    const Result<Listener> second = Listener::open(loop(), *listener.local_endpoint());
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code(), Errc::port_in_use);
    EXPECT_THAT(second.error().message(),
                testing::HasSubstr(listener.local_endpoint()->to_string()));
}

TEST_P(ListenerTest, AdoptRefusesSocketsOfAnotherKind) {
    auto [client, server] = connect_pair();
    EXPECT_EQ(Listener::adopt(loop(), client.release()).error().code(), Errc::invalid_argument);
    EXPECT_EQ(Stream::adopt(loop(), Descriptor(-1)).error().code(), Errc::invalid_argument);
    EXPECT_EQ(DatagramSocket::adopt(loop(), server.release()).error().code(),
              Errc::invalid_argument);
    EXPECT_EQ(DatagramSocket::adopt(loop(), Descriptor(-1)).error().code(), Errc::invalid_argument);
    DatagramSocket datagrams =
        DatagramSocket::open(loop(), Address::loopback(Family::ipv4)).value();
    EXPECT_EQ(Stream::adopt(loop(), datagrams.release()).error().code(), Errc::invalid_argument);
}

BERTH_OVER_EVERY_ENGINE_OF(ListenerTest);

}  // namespace
}  // namespace berth::test
