// SPDX-License-Identifier: Apache-2.0
#include <berth/ports.h>

#include "src/base/kernel_constants.h"
#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace berth {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::Call;
using test::failed_with;
using test::FaultPlan;
using test::in_network_namespace;
using test::kFamilies;
using test::listener;
using test::local_of;
using test::new_socket;
using test::new_table;
using test::option_of;
using test::succeeded;
using testing::HasSubstr;

constexpr PortRange kSmall = {40000, 40015};
// Outside every range of these tests.
constexpr std::uint16_t kServerPort = 20000;
const TableOptions kNoRest = {.rest_period = milliseconds(0)};

struct Connection {
    Socket socket;
    Port port;
};

// Connects until there is no port left.
std::vector<Connection> connect_all(PortTable& table, const Address& remote) {
    std::vector<Connection> connections;
    while (true) {
        Socket socket = new_socket(table.protocol(), remote.family());
        auto port = table.connect(socket, remote);
        if (!port) {
            EXPECT_TRUE(failed_with(port, Errc::ports_exhausted));
            return connections;
        }
        EXPECT_EQ(local_of(socket.fd()).port(), port->number());
        connections.push_back({std::move(socket), std::move(*port)});
    }
}

std::set<std::uint16_t> numbers_of(const std::vector<Connection>& connections) {
    std::set<std::uint16_t> numbers;
    for (const Connection& each : connections) numbers.insert(each.port.number());
    return numbers;
}

TEST(Connect, TcpConnectsFromAPortOfTheRange) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        for (const Family family : kFamilies) {
            const Descriptor server = listener(Address::loopback(family, kServerPort));
            const Socket socket = new_socket(Protocol::tcp, family);
            const auto port = table.connect(socket, Address::loopback(family, kServerPort));
            ASSERT_TRUE(succeeded(port));
            EXPECT_FALSE(port->is_connecting());
            EXPECT_EQ(local_of(socket.fd()), Address::loopback(family, port->number()));
            EXPECT_TRUE((PortRange{32768, 33791}).contains(port->number()));
            EXPECT_EQ(option_of(socket.fd(), IPPROTO_IP, IP_LOCAL_PORT_RANGE), 0);
        }
    });
}

TEST(Connect, ADescriptorThatBerthDidNotMake) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
        const auto port = table.connect(socket.get(), remote);
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(local_of(socket.get()).port(), port->number());
    });
}

TEST(Connect, OnePortServesManyDestinationsButOneDestinationOnlyOnce) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        std::vector<Descriptor> servers;
        std::vector<std::vector<Connection>> connections;
        for (const char* remote : {"127.0.0.1:20000", "127.0.0.1:20001", "127.0.0.2:20000"}) {
            servers.push_back(listener(address(remote)));
            connections.push_back(connect_all(table, address(remote)));
            EXPECT_EQ(connections.back().size(), kSmall.size()) << remote;
            EXPECT_EQ(numbers_of(connections.back()).size(), kSmall.size()) << remote;
        }
    });
}

TEST(Connect, IPv6ToExhaustionAndAgain) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        for (const std::uint16_t server_port : {kServerPort, std::uint16_t{kServerPort + 1}}) {
            const Address remote = Address::loopback(Family::ipv6, server_port);
            const Descriptor server = listener(remote);
            EXPECT_EQ(connect_all(table, remote).size(), kSmall.size());
        }
    });
}

TEST(Connect, ExhaustionNamesTheDestinationAndTheRange) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const auto connections = connect_all(table, remote);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto port = table.connect(socket, remote);
        ASSERT_TRUE(failed_with(port, Errc::ports_exhausted));
        EXPECT_THAT(port.error().message(), HasSubstr("connect 127.0.0.1:20000"));
        EXPECT_THAT(port.error().message(), HasSubstr("40000-40015"));
        EXPECT_THAT(port.error().message(), HasSubstr("all 16 ports"));
    });
}

TEST(Connect, ClosedConnectionsGiveTheirPortsBack) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(
            Protocol::tcp, {.rest_period = milliseconds(0), .recheck_interval = milliseconds(0)});
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        for (unsigned round = 0; round < 3; ++round) {
            auto connections = connect_all(table, remote);
            EXPECT_EQ(connections.size(), kSmall.size());
            for (const Connection& each : connections) {
                // Without TIME_WAIT.
                const linger at_once = {1, 0};
                ::setsockopt(each.socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            }
        }
    });
}

TEST(Connect, PortsInTimeWaitAreNotGivenWhileOthersAreFree) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        std::set<std::uint16_t> numbers;
        for (unsigned i = 0; i < kSmall.size(); ++i) {
            const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            const auto port = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(port)) << i;
            EXPECT_TRUE(numbers.insert(port->number()).second) << port->number();
        }
    });
}

TEST(Connect, ForeignConnectionsAreSkippedAndTheLastPortIsFound) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        std::vector<Socket> theirs;
        for (unsigned port = 32768; port <= 33790; ++port) {
            theirs.push_back(new_socket(Protocol::tcp, Family::ipv4));
            const auto number = static_cast<std::uint16_t>(port);
            ASSERT_TRUE(succeeded(theirs.back().set_local_port_range({number, number})));
            ASSERT_EQ(::connect(theirs.back().fd(), remote.data(), remote.size()), 0)
                << std::strerror(errno);
        }
        const auto connections = connect_all(table, remote);
        EXPECT_EQ(numbers_of(connections), (std::set<std::uint16_t>{33791}));
    });
}

TEST(Connect, PortsThatAreBoundAreNotUsed) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const auto lease = table.lease({.count = 8});
        const auto taken = table.take();
        ASSERT_TRUE(succeeded(lease));
        ASSERT_TRUE(succeeded(taken));
        const auto connections = connect_all(table, remote);
        const auto numbers = numbers_of(connections);
        EXPECT_EQ(numbers.size(), 7U);
        EXPECT_FALSE(numbers.contains(taken->number()));
        for (const std::uint16_t port : lease->ports) EXPECT_FALSE(numbers.contains(port));
    });
}

TEST(Connect, PortsOfConnectionsAreNotBound) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto connected = table.connect(socket, remote);
        ASSERT_TRUE(succeeded(connected));
        std::vector<Port> taken;
        while (auto port = table.take()) {
            EXPECT_NE(port->number(), connected->number());
            taken.push_back(std::move(*port));
        }
        EXPECT_EQ(taken.size(), kSmall.size() - 1);
    });
}

TEST(Connect, NobodyListensIsRefusedByName) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto port = table.connect(socket, Address::loopback(Family::ipv4, kServerPort));
        ASSERT_TRUE(failed_with(port, Errc::refused));
        EXPECT_THAT(port.error().message(), HasSubstr("127.0.0.1:20000"));
        EXPECT_EQ(option_of(socket.fd(), IPPROTO_IP, IP_LOCAL_PORT_RANGE), 0);
    });
}

TEST(Connect, NoRouteIsUnreachableAndNotExhausted) {
    in_network_namespace([] {
        for (const Protocol protocol : test::kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            Socket v4 = new_socket(protocol, Family::ipv4);
            EXPECT_TRUE(failed_with(table.connect(v4, address("192.0.2.1:9")), Errc::unreachable));
            Socket v6 = new_socket(protocol, Family::ipv6);
            const auto port = table.connect(v6, address("[2001:db8::1]:9"));
            ASSERT_FALSE(port);
            EXPECT_TRUE(port.error().code() == Errc::unreachable ||
                        port.error().code() == Errc::address_not_available)
                << port.error().message();
            // A UDP socket stays bound after a connect() that failed; its port stays taken.
            EXPECT_EQ(table.statistics().free_count, protocol == Protocol::udp ? 1022U : 1024U);
            v4.close();
            v6.close();
            ASSERT_TRUE(succeeded(table.reconcile()));
            EXPECT_EQ(table.statistics().free_count, 1024U);
        }
    });
}

TEST(Connect, SwitchedOffIpv6IsNotExhausted) {
    in_network_namespace({.disable_ipv6 = true}, [] {
        for (const Protocol protocol : test::kProtocols) {
            PortTable table = new_table(protocol);
            const Socket socket = new_socket(protocol, Family::ipv6);
            const auto port = table.connect(socket, Address::loopback(Family::ipv6, 9));
            ASSERT_FALSE(port);
            EXPECT_TRUE(port.error().code() == Errc::unreachable ||
                        port.error().code() == Errc::address_not_available)
                << port.error().message();
        }
    });
}

TEST(Connect, DestinationWithoutAPortIsRefused) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        EXPECT_TRUE(failed_with(table.connect(socket, Address::loopback(Family::ipv4)),
                                Errc::invalid_argument));
    });
}

TEST(Connect, NonBlockingSocketIsConnecting) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote, 1);
        // A full backlog keeps the last of these waiting.
        std::vector<Connection> connections;
        for (unsigned i = 0; i < 4; ++i) {
            Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            ASSERT_TRUE(succeeded(socket.set_nonblocking(true)));
            auto port = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(port));
            EXPECT_TRUE(port->is_connecting());
            EXPECT_NE(port->number(), 0);
            EXPECT_EQ(local_of(socket.fd()).port(), port->number());
            connections.push_back({std::move(socket), std::move(*port)});
        }
        EXPECT_EQ(numbers_of(connections).size(), 4U);
        const Port moved = std::move(connections[0].port);
        EXPECT_TRUE(moved.is_connecting());
    });
}

TEST(Connect, NeverToItself) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        PortTable table = new_table(Protocol::tcp, {.recheck_interval = milliseconds(0)});
        const Address itself = Address::loopback(Family::ipv4, 40000);
        for (const bool is_nonblocking : {false, true}) {
            Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            ASSERT_TRUE(succeeded(socket.set_nonblocking(is_nonblocking)));
            const auto port = table.connect(socket, itself);
            EXPECT_FALSE(port) << "connected to itself";
        }
        // The same with the listener that holds the only port.
        const Descriptor server = listener(itself);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        EXPECT_TRUE(failed_with(table.connect(socket, itself), Errc::ports_exhausted));
    });
}

TEST(Connect, PortRangeOfTheSocketIsRespectedAndStays) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        std::vector<Connection> connections;
        for (unsigned i = 0; i < 4; ++i) {
            Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            ASSERT_TRUE(succeeded(socket.set_local_port_range({33000, 33003})));
            auto port = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(port));
            EXPECT_TRUE((PortRange{33000, 33003}).contains(port->number()));
            EXPECT_EQ(option_of(socket.fd(), IPPROTO_IP, IP_LOCAL_PORT_RANGE), 33003 << 16 | 33000);
            connections.push_back({std::move(socket), std::move(*port)});
        }
        Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        ASSERT_TRUE(succeeded(socket.set_local_port_range({33000, 33003})));
        EXPECT_TRUE(failed_with(table.connect(socket, remote), Errc::ports_exhausted));
        EXPECT_EQ(option_of(socket.fd(), IPPROTO_IP, IP_LOCAL_PORT_RANGE), 33003 << 16 | 33000);
    });
}

TEST(Connect, BoundSocketConnectsFromItsPort) {
    in_network_namespace([] {
        for (const Protocol protocol : test::kProtocols) {
            PortTable table = new_table(protocol);
            const Address remote = Address::loopback(Family::ipv4, kServerPort);
            const Descriptor server = listener(remote);
            const Socket socket = new_socket(protocol, Family::ipv4);
            const auto bound = table.bind(socket, Address::any(Family::ipv4));
            ASSERT_TRUE(succeeded(bound));
            auto connected = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(connected));
            EXPECT_EQ(connected->number(), bound->number());
            connected->release();
            EXPECT_EQ(table.statistics().free_count, 1023U);
        }
    });
}

TEST(Connect, UdpBindsAPortOfItsOwn) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        for (const Family family : kFamilies) {
            const auto connections = connect_all(table, Address::loopback(family, 9));
            EXPECT_EQ(numbers_of(connections).size(), kSmall.size());
        }
        EXPECT_EQ(table.statistics().free_count, kSmall.size());
    });
}

TEST(Connect, V4MappedDestinationSharesTheV4DestinationsPorts) {
    in_network_namespace({.range = kSmall}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Descriptor server = listener(Address::loopback(Family::ipv4, kServerPort));
        auto v4 = connect_all(table, address("127.0.0.1:20000"));
        EXPECT_EQ(v4.size(), kSmall.size());
        const Socket v6 = new_socket(Protocol::tcp, Family::ipv6);
        EXPECT_TRUE(failed_with(table.connect(v6, address("[::ffff:127.0.0.1]:20000")),
                                Errc::ports_exhausted));
    });
}

TEST(Connect, SourceAddressesHavePortsOfTheirOwn) {
    in_network_namespace({.range = {40000, 40003}}, [] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        std::vector<Connection> connections;
        for (const char* source : {"127.0.0.5", "127.0.0.6"}) {
            for (unsigned i = 0; i < 4; ++i) {
                Socket socket = new_socket(Protocol::tcp, Family::ipv4);
                ASSERT_TRUE(succeeded(socket.set_bind_address_no_port(true)));
                ASSERT_TRUE(succeeded(table.bind(socket, address(source))));
                auto port = table.connect(socket, remote);
                ASSERT_TRUE(succeeded(port)) << source << " #" << i;
                connections.push_back({std::move(socket), std::move(*port)});
            }
        }
    });
}

// The kernel ignores bounds of IP_LOCAL_PORT_RANGE that lie outside the namespace's range.
TEST(Connect, RangeOutsideTheNamespacesIsStillTheTables) {
    in_network_namespace({.range = {30000, 30099}}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table =
            new_table(Protocol::tcp, {.range = kSmall, .rest_period = milliseconds(0)});
        EXPECT_EQ(numbers_of(connect_all(table, remote)).size(), kSmall.size());
    });
}

TEST(Connect, RangeThatChangedSinceTheLastReconcileGivesTheRightNumber) {
    in_network_namespace({.range = {30000, 30099}}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table = new_table(Protocol::tcp);
        test::write_setting("ipv4/ip_local_port_range", "40000 40099");
        std::vector<Connection> connections;
        for (unsigned i = 0; i < 20; ++i) {
            Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            auto port = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(port));
            ASSERT_EQ(local_of(socket.fd()).port(), port->number());
            connections.push_back({std::move(socket), std::move(*port)});
        }
    });
}

// A client of a listener whose backlog is full waits, and goes on waiting after a signal, until the
// handler has made room. There is no SA_RESTART: connect() answers EINTR each time.
std::atomic<int> signal_count{0};
std::atomic<int> full_listener{-1};

void make_room_with_the_third_signal(int /*signal*/) {
    if (++signal_count < 3) {
        return;
    }
    const int saved_errno = errno;
    const int accepted = ::accept(full_listener, nullptr, nullptr);
    if (accepted >= 0) {
        ::close(accepted);
    }
    errno = saved_errno;
}

void send_signals_every(std::chrono::microseconds period) {
    const timeval time = {0, period.count()};
    const itimerval timer = {time, time};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

TEST(Connect, SignalDuringABlockingConnectDoesNotInterruptIt) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp);
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote, 0);
        ASSERT_EQ(::fcntl(server.get(), F_SETFL, O_NONBLOCK), 0);
        full_listener = server.get();
        const Socket first = new_socket(Protocol::tcp, Family::ipv4);
        const auto first_port = table.connect(first, remote);
        ASSERT_TRUE(succeeded(first_port));

        struct sigaction action{};
        action.sa_handler = make_room_with_the_third_signal;
        ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
        send_signals_every(milliseconds(20));
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto port = table.connect(socket, remote);
        send_signals_every(milliseconds(0));

        ASSERT_TRUE(succeeded(port));
        EXPECT_FALSE(port->is_connecting());
        EXPECT_GE(signal_count.load(), 3);
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        EXPECT_EQ(::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &size), 0);
    });
}

bool is_range_option(const test::CallDetails& call) {
    return call.level == IPPROTO_IP && call.option == IP_LOCAL_PORT_RANGE;
}

TEST(Connect, KernelWithoutIpLocalPortRangeBindsExplicitly) {
    in_network_namespace({.range = kSmall}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table = new_table(Protocol::tcp, kNoRest);
        FaultPlan faults;
        faults.fail_if(Call::setsockopt, ENOPROTOOPT, is_range_option);
        auto connections = connect_all(table, remote);
        EXPECT_EQ(numbers_of(connections).size(), kSmall.size());
        EXPECT_EQ(table.statistics().free_count, 0U);
        connections.clear();
        EXPECT_EQ(table.statistics().free_count, kSmall.size());
    });
}

// Each connection's failure must leave the table as it was.
TEST(Connect, FailuresGiveThePortBack) {
    in_network_namespace({.range = kSmall}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table = new_table(
            Protocol::tcp, {.rest_period = milliseconds(0), .recheck_interval = milliseconds(0)});
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const std::pair<int, Errc> failures[] = {{ECONNREFUSED, Errc::refused},
                                                 {ENETUNREACH, Errc::unreachable},
                                                 {EHOSTUNREACH, Errc::unreachable},
                                                 {ETIMEDOUT, Errc::timed_out},
                                                 {EACCES, Errc::permission_denied},
                                                 {ENOBUFS, Errc::out_of_memory},
                                                 {EIO, Errc::system}};
        for (const auto& [error, code] : failures) {
            FaultPlan faults;
            faults.fail(Call::connect, error);
            for (unsigned i = 0; i < 20; ++i) {
                const auto port = table.connect(socket, remote);
                ASSERT_TRUE(failed_with(port, code)) << std::strerror(error);
                EXPECT_THAT(port.error().message(), HasSubstr("127.0.0.1:20000"));
            }
        }
        EXPECT_EQ(connect_all(table, remote).size(), kSmall.size());
    });
}

TEST(Connect, FewRefusalsOfTheKernelCostOnlyAnotherPort) {
    in_network_namespace({.range = kSmall}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table = new_table(Protocol::tcp, kNoRest);
        {
            FaultPlan faults;
            faults.fail(Call::connect, EADDRNOTAVAIL, 3);
            const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            EXPECT_TRUE(succeeded(table.connect(socket, remote)));
        }
        EXPECT_EQ(table.statistics().refused_count, 3U);
        EXPECT_EQ(table.statistics().kernel_choice_count, 0U);
    });
}

TEST(Connect, EndlessRefusalsOfTheKernelAreAnAnswer) {
    in_network_namespace({.range = kSmall}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table = new_table(
            Protocol::tcp, {.rest_period = milliseconds(0), .recheck_interval = milliseconds(0)});
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        {
            FaultPlan faults;
            faults.fail(Call::connect, EADDRNOTAVAIL);
            EXPECT_FALSE(table.connect(socket, remote));
            EXPECT_LT(faults.call_count(Call::connect), 100U);
        }
        EXPECT_EQ(connect_all(table, remote).size(), kSmall.size());
    });
}

TEST(Connect, RefusedOptionLosesNoPort) {
    in_network_namespace({.range = kSmall}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        PortTable table = new_table(Protocol::tcp, kNoRest);
        {
            FaultPlan faults;
            faults.fail_if(Call::setsockopt, EPERM, is_range_option);
            const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            const auto port = table.connect(socket, remote);
            ASSERT_TRUE(failed_with(port, Errc::permission_denied));
            EXPECT_THAT(port.error().message(), HasSubstr("IP_LOCAL_PORT_RANGE"));
        }
        EXPECT_EQ(connect_all(table, remote).size(), kSmall.size());
    });
}

TEST(Connect, RefusedNetlinkStillFindsThePortsByTheKernelsChoice) {
    in_network_namespace({.range = kSmall}, [] {
        const Address remote = Address::loopback(Family::ipv4, kServerPort);
        const Descriptor server = listener(remote);
        TableOptions blind = kNoRest;
        blind.reconcile_at_start = false;
        PortTable table = new_table(Protocol::tcp, blind);
        FaultPlan faults;
        faults.fail(Call::socket, EACCES, FaultPlan::kAlways, test::Target::netlink);
        EXPECT_EQ(connect_all(table, remote).size(), kSmall.size());
    });
}

}  // namespace
}  // namespace berth
