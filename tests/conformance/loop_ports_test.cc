// SPDX-License-Identifier: Apache-2.0

// Sockets of a loop that has port tables: where their local ports come from, and when these are
// free again.
//
//   ┌ network namespace of the test ────────────────────────────────────────┐
//   │  loop: streams, listeners, datagram sockets from 40000..   lo   :20000 │
//   └────────────────────────────────────────────────────────────────────────┘

#include "tests/conformance/engines.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <berth/datagram_socket.h>
#include <berth/ports.h>
#include <berth/scope.h>
#include <berth/task.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr PortRange kFour = {40000, 40003};
constexpr PortRange kOne = {40000, 40000};
// Outside of both.
constexpr std::uint16_t kServerPort = 20000;

class LoopPortsTest : public EngineTest {
protected:
    void SetUp() override { need_kernel("a port table asks the real kernel what is in use"); }

    /// Runs `body` in a network namespace, on a loop whose tables give out the ports of `range`.
    void with_ports(PortRange range, const std::function<void()>& body,
                    std::chrono::milliseconds rest_period = 0ms) {
        in_network_namespace({.range = range}, [&] {
            const TableOptions options = {
                .range = range, .rest_period = rest_period, .recheck_interval = 0ms};
            tcp_.emplace(new_table(Protocol::tcp, options));
            udp_.emplace(new_table(Protocol::udp, options));
            start({.tcp_ports = &*tcp_, .udp_ports = &*udp_});
            body();
        });
    }

    /// Ports that anybody could have: taken by no socket, connections included.
    static std::size_t free_count(PortTable& table) {
        std::vector<Port> taken;
        while (Result<Port> port = table.take(TakeFamily::ipv4)) {
            taken.push_back(std::move(*port));
        }
        return taken.size();
    }
    std::size_t free_count() { return free_count(*tcp_); }

    struct Client {
        Stream stream;
        Watched<ConnectOperation> connect;
    };
    /// Connected, or with the error in `connect`.
    std::unique_ptr<Client> connect_to(const Endpoint& remote, const ConnectOptions& options = {}) {
        auto client = std::make_unique<Client>();
        client->stream = Stream::open(loop(), remote, options).value();
        EXPECT_EQ(client->stream.connect(client->connect), Start::pending);
        run_until([&] { return client->connect.completion_count == 1; });
        return client;
    }
    static std::uint16_t port_of(const Client& client) {
        EXPECT_FALSE(client.connect.has_failed()) << client.connect.error().message();
        return client.connect.has_failed() ? std::uint16_t{0}
                                           : client.stream.local_endpoint()->address().port();
    }
    /// The other end of a connection that `listener` has.
    Stream accept_from(const Descriptor& listener) {
        Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        EXPECT_TRUE(socket.is_open());
        return Stream::adopt(loop(), std::move(socket)).value();
    }
    /// A connection over the only port with more queued than the kernel takes.
    struct Queued {
        Address remote;
        Descriptor server;
        std::vector<std::byte> bytes;
        std::unique_ptr<Client> client;
        Stream peer;
    };
    Queued connect_and_queue() {
        Queued queued{.remote = Address::loopback(Family::ipv4, kServerPort),
                      .server = {},
                      .bytes = pattern(16 << 20),
                      .client = {},
                      .peer = {}};
        queued.server = listener(queued.remote);
        queued.client = connect_to(queued.remote);
        queued.peer = accept_from(queued.server);
        EXPECT_TRUE(queued.client->stream.write(queued.bytes).has_value());
        return queued;
    }

    /// The only port of `table` comes back, and not while `fd` is open.
    void expect_freed_after(int fd, PortTable& table) {
        run_until([&] {
            const bool is_free = free_count(table) == 1;
            const bool is_closed = ::fcntl(fd, F_GETFD) == -1;
            EXPECT_TRUE(is_closed || !is_free) << "the port is free before its socket is";
            return is_free && is_closed;
        });
    }

    std::optional<PortTable> tcp_;
    std::optional<PortTable> udp_;
};

TEST_P(LoopPortsTest, ConnectTakesItsPortFromTheTable) {
    with_ports(kFour, [&] {
        for (const Family family : kFamilies) {
            const Address remote = Address::loopback(family, kServerPort);
            const Descriptor server = listener(remote);
            const auto client = connect_to(remote);
            EXPECT_TRUE(kFour.contains(port_of(*client))) << port_of(*client);
            if (family == Family::ipv4) {
                EXPECT_EQ(free_count(), 3U) << "the table knows that it is taken";
            }
            ASSERT_TRUE(client->stream.write(bytes_of("hello")).has_value());
            Stream peer = accept_from(server);
            EXPECT_EQ(text_of(receive_exactly(peer, 5)), "hello");
            client->stream.reset();
        }
    });
}

TEST_P(LoopPortsTest, DestinationsShareTheOnlyPort) {
    with_ports(kOne, [&] {
        const Address here = address("127.0.0.1:20000");
        const Address there = address("127.0.0.1:20001");
        const Descriptor one = listener(here);
        const Descriptor other = listener(there);
        const auto first = connect_to(here);
        const auto second = connect_to(there);
        EXPECT_EQ(port_of(*first), kOne.first);
        EXPECT_EQ(port_of(*second), kOne.first);
        first->stream.reset();
        EXPECT_EQ(free_count(), 0U) << "the second connection still has it";
        second->stream.reset();
        EXPECT_EQ(free_count(), 1U);
    });
}

TEST_P(LoopPortsTest, ConnectWithoutAPortSaysSo) {
    with_ports(kOne, [&] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const auto first = connect_to(remote);
        ASSERT_EQ(port_of(*first), kOne.first);
        const auto second = connect_to(remote);
        ASSERT_TRUE(second->connect.has_failed());
        const Error error = second->connect.error();
        EXPECT_EQ(error.code(), Errc::ports_exhausted);
        EXPECT_THAT(error.message(), HasSubstr("127.0.0.1:20000"));
        EXPECT_THAT(error.message(), HasSubstr("40000-40000"));
        second->stream.close();
        // The operation forgets it, once there is a port.
        first->stream.reset();
        second->stream = Stream::open(loop(), remote).value();
        second->stream.connect(second->connect);
        run_until([&] { return second->connect.completion_count == 2; });
        EXPECT_EQ(port_of(*second), kOne.first);
        second->stream.reset();
        second->stream = Stream::open(loop(), remote.with_port(9)).value();
        second->stream.connect(second->connect);
        run_until([&] { return second->connect.completion_count == 3; });
        EXPECT_EQ(second->connect.error().code(), Errc::refused);
    });
}

TEST_P(LoopPortsTest, AwaitedConnectWithoutAPortSaysSo) {
    with_ports(kOne, [&] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        std::optional<Result<Stream>> first;
        std::optional<Result<Stream>> second;
        const auto connect_both = [&]() -> Task<void> {
            first = co_await connect(loop(), remote);
            second = co_await connect(loop(), remote);
        };
        Scope tasks;
        tasks.spawn(connect_both());
        run_until([&] { return tasks.size() == 0; });
        ASSERT_TRUE(succeeded(*first));
        EXPECT_EQ((*first)->local_endpoint()->address().port(), kOne.first);
        EXPECT_TRUE(failed_with(*second, Errc::ports_exhausted));
        first.reset();
        EXPECT_EQ(free_count(), 1U);
    });
}

TEST_P(LoopPortsTest, ConnectFromAnAddressTakesAPortForIt) {
    with_ports(kFour, [&] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const auto any = connect_to(remote, {.local = address("127.0.0.5")});
        EXPECT_TRUE(kFour.contains(port_of(*any)));
        const auto certain = connect_to(remote, {.local = address("127.0.0.6:40002")});
        EXPECT_EQ(certain->stream.local_endpoint()->address(), address("127.0.0.6:40002"));
        EXPECT_EQ(any->stream.local_endpoint()->address().with_port(0), address("127.0.0.5"));
        // Its port is the table's already: nobody else is given it.
        const Result<Stream> again =
            Stream::open(loop(), remote, {.local = address("127.0.0.6:40002")});
        EXPECT_TRUE(failed_with(again, Errc::port_in_use));
    });
}

TEST_P(LoopPortsTest, DestinationsShareTheOnlyPortOfAnAddress) {
    with_ports(kOne, [&] {
        const Address here = address("127.0.0.1:20000");
        const Address there = address("127.0.0.1:20001");
        const Descriptor one = listener(here);
        const Descriptor other = listener(there);
        const ConnectOptions from = {.local = address("127.0.0.5")};
        const auto first = connect_to(here, from);
        const auto second = connect_to(there, from);
        EXPECT_EQ(port_of(*first), kOne.first);
        EXPECT_EQ(port_of(*second), kOne.first);
        EXPECT_EQ(connect_to(here, from)->connect.error().code(), Errc::ports_exhausted);
    });
}

TEST_P(LoopPortsTest, RefusedConnectGivesItsPortBack) {
    with_ports(kOne, [&] {
        const auto client = connect_to(Address::loopback(Family::ipv4, kServerPort));
        EXPECT_EQ(client->connect.error().code(), Errc::refused);
        client->stream.close();
        EXPECT_EQ(free_count(), 1U);
    });
}

TEST_P(LoopPortsTest, ListenerTakesItsPortFromTheTable) {
    with_ports(kOne, [&] {
        const Endpoint anywhere = Address::any(Family::ipv4);
        Listener listener = Listener::open(loop(), anywhere).value();
        EXPECT_EQ(listener.local_endpoint()->address().port(), kOne.first);
        EXPECT_EQ(free_count(), 0U);
        const Result<Listener> second = Listener::open(loop(), anywhere);
        EXPECT_TRUE(failed_with(second, Errc::ports_exhausted));
        listener.close();
        run_ready();
        EXPECT_EQ(free_count(), 1U);
        EXPECT_TRUE(succeeded(Listener::open(loop(), anywhere)));
    });
}

TEST_P(LoopPortsTest, DatagramSocketsTakeTheirPortsFromTheTable) {
    with_ports(kFour, [&] {
        const Endpoint anywhere = Address::any(Family::ipv4);
        DatagramSocket server = DatagramSocket::open(loop(), anywhere).value();
        const Address at =
            Address::loopback(Family::ipv4, server.local_endpoint()->address().port());
        EXPECT_TRUE(kFour.contains(at.port()));
        std::vector<DatagramSocket> clients;
        for (int i = 0; i < 3; ++i) {
            clients.push_back(DatagramSocket::open_to(loop(), at).value());
            EXPECT_TRUE(kFour.contains(clients.back().local_endpoint()->address().port()));
        }
        EXPECT_EQ(free_count(*udp_), 0U);
        EXPECT_TRUE(failed_with(DatagramSocket::open_to(loop(), at), Errc::ports_exhausted));
        EXPECT_TRUE(failed_with(DatagramSocket::open(loop(), anywhere), Errc::ports_exhausted));
        clients.pop_back();
        server.close();
        run_ready();
        EXPECT_EQ(free_count(*udp_), 2U);
        EXPECT_TRUE(succeeded(DatagramSocket::open(loop(), anywhere)));
    });
}

TEST_P(LoopPortsTest, PortRestsAfterClose) {
    const auto body = [&] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        DatagramSocket socket = DatagramSocket::open(loop(), Address::any(Family::ipv4)).value();
        Listener listener = Listener::open(loop(), Address::any(Family::ipv4)).value();
        const std::uint16_t port = listener.local_endpoint()->address().port();
        const auto client = connect_to(remote);
        EXPECT_NE(port_of(*client), port);
        socket.close();
        listener.close();
        client->stream.reset();
        run_ready();
        for (const PortTable* table : {&*tcp_, &*udp_}) {
            EXPECT_EQ(table->statistics().resting_count, 1U);
            EXPECT_EQ(table->statistics().free_count, 3U);
        }
        // One that rests toward a destination is not used for it while others are there.
        const std::uint16_t rests = port_of(*connect_to(remote));
        EXPECT_NE(port_of(*connect_to(remote)), rests);
    };
    with_ports(kFour, body, 60s);
}

// Whoever gets it next binds it at once.
TEST_P(LoopPortsTest, PortIsNotFreeBeforeItsSocketIsGone) {
    with_ports(kOne, [&] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        for (const bool resets : {false, true}) {
            const auto client = connect_to(remote);
            Stream peer = accept_from(server);
            Watched<ReceiveLentOperation> receive;
            client->stream.receive(receive);
            run_ready();
            peer.reset();
            const int fd = client->stream.fd();
            EXPECT_EQ(free_count(), 0U);
            resets ? client->stream.reset() : client->stream.close();
            expect_freed_after(fd, *tcp_);
            run_until([&] { return receive.completion_count == 1; });
            EXPECT_EQ(port_of(*connect_to(remote)), kOne.first);
            accept_from(server).reset();
            run_ready();
        }
    });
}

TEST_P(LoopPortsTest, PortOfAListenerIsNotFreeBeforeItIsGone) {
    with_ports(kOne, [&] {
        Listener listener = Listener::open(loop(), Address::any(Family::ipv4)).value();
        const int fd = listener.fd();
        int accepted = -1;
        Watched<AcceptOperation> accept;
        listener.accept(accept, std::span(&accepted, 1));
        run_ready();
        EXPECT_EQ(free_count(), 0U);
        listener.close();
        expect_freed_after(fd, *tcp_);
        run_until([&] { return accept.completion_count == 1; });
    });
}

TEST_P(LoopPortsTest, PortOfADatagramSocketIsNotFreeBeforeItIsGone) {
    with_ports(kOne, [&] {
        DatagramSocket socket = DatagramSocket::open(loop(), Address::any(Family::ipv4)).value();
        const int fd = socket.fd();
        std::array<std::byte, 10> buffer{};
        Watched<ReceiveFromOperation> receive;
        socket.receive(receive, buffer);
        run_ready();
        EXPECT_EQ(free_count(*udp_), 0U);
        socket.close();
        expect_freed_after(fd, *udp_);
        run_until([&] { return receive.completion_count == 1; });
    });
}

TEST_P(LoopPortsTest, PortIsTakenWhileAWriteLingers) {
    with_ports(kOne, [&] {
        Queued queued = connect_and_queue();
        queued.client->stream.close();
        run_ready();
        EXPECT_EQ(free_count(), 0U);
        EXPECT_EQ(connect_to(queued.remote)->connect.error().code(), Errc::ports_exhausted);
        EXPECT_TRUE(receive_all(queued.peer).bytes == queued.bytes);
        run_until([&] { return free_count() == 1U; });
    });
}

TEST_P(LoopPortsTest, PortIsFreeWhenTheLingerTimeIsOver) {
    with_ports(kOne, [&] {
        Queued queued = connect_and_queue();
        ASSERT_TRUE(queued.client->stream.set_linger(5ms).has_value());
        queued.client->stream.close();
        EXPECT_EQ(free_count(), 0U);
        run_until([&] { return free_count() == 1U; });
        EXPECT_EQ(receive_all(queued.peer).system_errno, ECONNRESET);
        EXPECT_EQ(port_of(*connect_to(queued.remote)), kOne.first);
    });
}

TEST_P(LoopPortsTest, PortIsFreeWhenAQueuedWriteIsThrownAway) {
    with_ports(kOne, [&] {
        Queued queued = connect_and_queue();
        run_ready();
        queued.client->stream.reset();
        run_until([&] { return free_count() == 1U; });
        run_ready();
        EXPECT_EQ(port_of(*connect_to(queued.remote)), kOne.first);
    });
}

TEST_P(LoopPortsTest, ReleasedStreamKeepsItsPort) {
    with_ports(kOne, [&] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const auto client = connect_to(remote);
        ASSERT_EQ(port_of(*client), kOne.first);
        const Descriptor socket = client->stream.release();
        run_ready();
        EXPECT_EQ(local_of(socket.get()).port(), kOne.first);
        EXPECT_EQ(free_count(), 0U);
        EXPECT_EQ(connect_to(remote)->connect.error().code(), Errc::ports_exhausted);
    });
}

TEST_P(LoopPortsTest, ReleasedDatagramSocketKeepsItsPort) {
    with_ports(kOne, [&] {
        const Endpoint anywhere = Address::any(Family::ipv4);
        DatagramSocket opened = DatagramSocket::open(loop(), anywhere).value();
        const Descriptor socket = opened.release();
        run_ready();
        EXPECT_EQ(local_of(socket.get()).port(), kOne.first);
        EXPECT_TRUE(failed_with(DatagramSocket::open(loop(), anywhere), Errc::ports_exhausted));
    });
}

BERTH_OVER_EVERY_ENGINE_OF(LoopPortsTest);

}  // namespace
}  // namespace berth::test
