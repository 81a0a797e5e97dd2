// SPDX-License-Identifier: Apache-2.0
// What a bind or a UDP connect that fails, or that is narrowed, leaves behind in the table.
#include "src/base/kernel_constants.h"
#include "src/ports/table_state.h"

#include "tests/support/fault_injection.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <berth/ports.h>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::Call;
using test::failed_with;
using test::FaultPlan;
using test::in_network_namespace;
using test::kFamilies;
using test::kProtocols;
using test::local_of;
using test::new_socket;
using test::new_table;
using test::stranger;
using test::succeeded;

constexpr PortRange kTwo = {40000, 40001};
constexpr PortRange kSmall = {40000, 40015};
const Address kAny = Address::any(Family::ipv4);
const TableOptions kNoRest = {.rest_period = milliseconds(0)};

std::unique_ptr<TableState> new_state(std::uint32_t rest_period_ms = 0,
                                      Protocol protocol = Protocol::udp) {
    auto memory = TableMemory::create_private({protocol, rest_period_ms, {0, 0}, true});
    EXPECT_TRUE(succeeded(memory));
    auto state = TableState::make(std::move(*memory), {.recheck_interval = milliseconds(0)});
    EXPECT_TRUE(succeeded(state));
    return std::move(*state);
}

Result<Port> bind(TableState& table, const Socket& socket, const Address& local) {
    return table.bind(SocketTraits::of(socket), local, {});
}

OwnerKind holder_of(TableState& table, std::uint16_t port) {
    return kind_of(table.core().space(kWildcardSpace).owner(port));
}

// The numbers of all ports that can be bound at once.
std::set<std::uint16_t> bind_all(PortTable& table, const Address& local,
                                 PortRange sockets_range = {0, 0}) {
    std::vector<std::pair<Socket, Port>> held;
    std::set<std::uint16_t> numbers;
    while (true) {
        Socket socket = new_socket(table.protocol(), local.family());
        if (sockets_range != PortRange{0, 0}) {
            EXPECT_TRUE(succeeded(socket.set_local_port_range(sockets_range)));
        }
        auto port = table.bind(socket, local);
        if (!port) {
            EXPECT_TRUE(failed_with(port, Errc::ports_exhausted));
            return numbers;
        }
        EXPECT_TRUE(numbers.insert(port->number()).second);
        held.emplace_back(std::move(socket), std::move(*port));
    }
}

// The namespace has only loopback, so no other address can be reached.
const Address kNowhere = address("192.0.2.1:9");

TEST(FailedUdpConnect, SocketThatStaysBoundKeepsItsPort) {
    in_network_namespace({.range = kTwo}, [] {
        const auto table = new_state();
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(
            failed_with(table->connect(SocketTraits::of(socket), kNowhere), Errc::unreachable));
        const std::uint16_t number = local_of(socket.fd()).port();
        ASSERT_TRUE(kTwo.contains(number));
        EXPECT_EQ(holder_of(*table, number), OwnerKind::kernel);
        for (unsigned i = 0; i < 10; ++i) {
            const auto port = table->take(TakeFamily::ipv4);
            ASSERT_TRUE(succeeded(port));
            EXPECT_NE(port->number(), number);
            EXPECT_TRUE(failed_with(table->take(TakeFamily::ipv4), Errc::ports_exhausted));
        }
        socket.close();
        ASSERT_TRUE(succeeded(table->reconcile()));
        EXPECT_TRUE(table->core().space(kWildcardSpace).free.is_free(number));
    });
}

TEST(FailedUdpConnect, LaterConnectOfTheSameSocketHoldsThePort) {
    in_network_namespace({.range = kTwo}, [] {
        const auto table = new_state();
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_FALSE(table->connect(SocketTraits::of(socket), kNowhere));
        auto port = table->connect(SocketTraits::of(socket), address("127.0.0.1:20000"));
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(port->number(), local_of(socket.fd()).port());
        EXPECT_EQ(holder_of(*table, port->number()), OwnerKind::process);
        ASSERT_TRUE(succeeded(table->reconcile()));
        EXPECT_EQ(holder_of(*table, port->number()), OwnerKind::process);
        const std::uint16_t number = port->number();
        socket.close();
        port->release();
        EXPECT_TRUE(table->core().space(kWildcardSpace).free.is_free(number))
            << "its own Port gave it back";
    });
}

// The kernel goes on telling the port of a TCP connection that has failed.
TEST(FailedTcpConnect, SocketConnectsFromAnotherPortOfTheTableLater) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Family family : kFamilies) {
            const Address remote = Address::loopback(family, 20000);
            const Descriptor server = test::listener(remote);
            PortTable table = new_table(Protocol::tcp, kNoRest);
            const Socket socket = new_socket(Protocol::tcp, family);
            for (unsigned i = 0; i < 3; ++i) {
                const Address nobody = Address::loopback(family, 20001);
                ASSERT_TRUE(failed_with(table.connect(socket, nobody), Errc::refused));
            }
            const auto lease = table.lease({.count = 15});  // one of 16 is left
            ASSERT_TRUE(succeeded(lease));
            const auto port = table.connect(socket, remote);
            ASSERT_TRUE(succeeded(port));
            EXPECT_EQ(port->number(), local_of(socket.fd()).port());
            EXPECT_EQ(std::ranges::count(lease->ports, port->number()), 0);
            EXPECT_EQ(test::option_of(socket.fd(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), 0);
        }
    });
}

TEST(FailedTcpConnect, SocketThatIsBoundStaysSo) {
    in_network_namespace({.range = kSmall}, [] {
        const Descriptor server = test::listener(address("127.0.0.1:20000"));
        PortTable table = new_table(Protocol::tcp, kNoRest);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto port = table.bind(socket, kAny);
        ASSERT_TRUE(succeeded(port));
        EXPECT_TRUE(failed_with(table.connect(socket, address("127.0.0.1:20001")), Errc::refused));
        const auto connected = table.connect(socket, address("127.0.0.1:20000"));
        ASSERT_TRUE(succeeded(connected));
        EXPECT_EQ(connected->number(), port->number());
        EXPECT_EQ(local_of(socket.fd()).port(), port->number());
    });
}

TEST(UdpConnect, NeverConnectsASocketToItself) {
    in_network_namespace({.range = kTwo}, [] {
        for (const Family family : kFamilies) {
            PortTable table = new_table(Protocol::udp, kNoRest);
            for (unsigned i = 0; i < 20; ++i) {
                const Socket socket = new_socket(Protocol::udp, family);
                const auto port = table.connect(socket, Address::loopback(family, 40000));
                ASSERT_TRUE(succeeded(port));
                EXPECT_EQ(port->number(), 40001);
            }
        }
    });
    in_network_namespace({.range = {40000, 40000}}, [] {
        for (const milliseconds recheck_interval : {milliseconds(0), milliseconds(100)}) {
            PortTable table = new_table(Protocol::udp, {.rest_period = milliseconds(0),
                                                        .recheck_interval = recheck_interval});
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            EXPECT_TRUE(failed_with(table.connect(socket, address("127.0.0.1:40000")),
                                    Errc::ports_exhausted));
            EXPECT_TRUE(succeeded(table.connect(socket, address("127.0.0.1:40002"))));
        }
    });
}

// A socket that shares `local` with others, unknown to the table.
Descriptor sharing_stranger(const Address& local, int option) {
    Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, option, &on, sizeof on), 0);
    EXPECT_EQ(::bind(socket.get(), local.data(), local.size()), 0);
    return socket;
}

TEST(SharingByName, WithoutASpareDescriptorIsAnErrorAndNoSilentSharing) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        for (const Sharing sharing : {Sharing::reuse_port, Sharing::reuse_address}) {
            PortTable table = new_table(Protocol::udp, kNoRest);
            const int option = sharing == Sharing::reuse_port ? SO_REUSEPORT : SO_REUSEADDR;
            std::optional<Descriptor> other(sharing_stranger(kAny.with_port(40000), option));
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            FaultPlan faults;
            faults.fail(Call::socket, EMFILE);
            EXPECT_TRUE(failed_with(table.bind(socket, kAny, {.sharing = sharing}),
                                    Errc::descriptors_exhausted));
            EXPECT_EQ(faults.failed_count(Call::socket), 1U);
            EXPECT_EQ(local_of(socket.fd()).port(), 0);
            other.reset();
            EXPECT_TRUE(succeeded(table.bind(socket, kAny))) << "it has cost no port";
        }
    });
}

TEST(FailedExplicitBind, LeavesAPortOfTheKernelsToTheKernel) {
    in_network_namespace({.range = kTwo}, [] {
        const Descriptor other = stranger(Protocol::udp, kAny.with_port(40000));
        const auto table = new_state();
        ASSERT_EQ(holder_of(*table, 40000), OwnerKind::kernel);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const auto port = bind(*table, socket, kAny);
        ASSERT_TRUE(succeeded(port));
        EXPECT_TRUE(
            failed_with(bind(*table, socket, kAny.with_port(40000)), Errc::invalid_argument));
        EXPECT_EQ(holder_of(*table, 40000), OwnerKind::kernel);
        EXPECT_TRUE(failed_with(table->take(TakeFamily::ipv4), Errc::ports_exhausted));
    });
}

TEST(FailedExplicitBind, LeavesARestingPortToItsRest) {
    in_network_namespace({.range = kTwo}, [] {
        const auto table = new_state(3'600'000);
        Socket first = new_socket(Protocol::udp, Family::ipv4);
        auto resting = bind(*table, first, kAny);
        ASSERT_TRUE(succeeded(resting));
        const std::uint16_t number = resting->number();
        first.close();
        resting->release();
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const auto port = bind(*table, socket, kAny);
        ASSERT_TRUE(succeeded(port));
        ASSERT_NE(port->number(), number);
        EXPECT_TRUE(
            failed_with(bind(*table, socket, kAny.with_port(number)), Errc::invalid_argument));
        EXPECT_TRUE(table->core().space(kWildcardSpace).resting.is_resting(number));
        EXPECT_FALSE(table->core().space(kWildcardSpace).free.is_free(number));
    });
}

TEST(PrivilegedPorts, AreLeftOutByAProcessThatMayNotBindThem) {
    in_network_namespace({.drop_privileges = true}, [] {
        for (const Protocol protocol : kProtocols) {
            for (const Family family : kFamilies) {
                PortTable table = new_table(
                    protocol, {.range = PortRange{1000, 1039}, .rest_period = milliseconds(0)});
                const auto numbers = bind_all(table, Address::any(family));
                EXPECT_EQ(numbers.size(), 16U);
                EXPECT_EQ(*numbers.begin(), 1024);
                EXPECT_EQ(*numbers.rbegin(), 1039);
            }
        }
    });
}

TEST(PrivilegedPorts, AreLeftOutByUdpConnectToo) {
    in_network_namespace({.drop_privileges = true}, [] {
        PortTable table = new_table(
            Protocol::udp, {.range = PortRange{1000, 1027}, .rest_period = milliseconds(0)});
        for (unsigned i = 0; i < 20; ++i) {
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            const auto port = table.connect(socket, address("127.0.0.1:20000"));
            ASSERT_TRUE(succeeded(port));
            EXPECT_GE(port->number(), 1024);
        }
    });
}

TEST(PrivilegedPorts, RangeOfNothingElseIsDenied) {
    in_network_namespace({.drop_privileges = true}, [] {
        PortTable table = new_table(Protocol::udp, {.range = PortRange{1000, 1010}});
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        EXPECT_TRUE(failed_with(table.bind(socket, kAny), Errc::permission_denied));
        EXPECT_EQ(table.statistics().free_count, 11U) << "it has cost no port";
    });
}

TEST(SocketRange, OutsideTheTablesDoesNotHinderABindByNumber) {
    in_network_namespace({.range = kSmall}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            for (const std::uint16_t number : {std::uint16_t{40003}, std::uint16_t{50005}}) {
                Socket socket = new_socket(protocol, Family::ipv4);
                ASSERT_TRUE(succeeded(socket.set_local_port_range({50000, 50010})));
                const auto port = table.bind(socket, kAny.with_port(number));
                ASSERT_TRUE(succeeded(port));
                EXPECT_EQ(local_of(socket.fd()).port(), number);
            }
        }
    });
}

// All ports that the kernel itself chooses for sockets with this range.
std::set<std::uint16_t> kernel_binds_all(Protocol protocol, PortRange sockets_range) {
    std::vector<Socket> held;
    std::set<std::uint16_t> numbers;
    while (true) {
        Socket socket = new_socket(protocol, Family::ipv4);
        EXPECT_TRUE(succeeded(socket.set_local_port_range(sockets_range)));
        if (::bind(socket.fd(), kAny.data(), kAny.size()) != 0) {
            EXPECT_EQ(errno, EADDRINUSE);
            return numbers;
        }
        numbers.insert(local_of(socket.fd()).port());
        held.push_back(std::move(socket));
    }
}

TEST(SocketRange, IsClampedAsTheKernelClampsIt) {
    in_network_namespace({.range = kSmall}, [] {
        const PortRange ranges[] = {{50000, 50010}, {30000, 30010}, {30000, 50000}, {30000, 40003},
                                    {40010, 50000}, {40004, 0},     {0, 40003},     {40002, 40002}};
        for (const Protocol protocol : kProtocols) {
            for (const PortRange& range : ranges) {
                const auto expected = kernel_binds_all(protocol, range);
                PortTable table = new_table(protocol, kNoRest);
                EXPECT_EQ(bind_all(table, kAny, range), expected)
                    << to_string(protocol) << ' ' << range.first << '-' << range.last;
            }
        }
    });
}

}  // namespace
}  // namespace berth::internal
