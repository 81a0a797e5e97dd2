// SPDX-License-Identifier: Apache-2.0
#include <berth/ports.h>

#include "src/base/kernel_constants.h"
#include "tests/support/network_namespace.h"
#include "tests/support/port_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace berth {
namespace {

using std::chrono::milliseconds;
using test::address;
using test::failed_with;
using test::in_network_namespace;
using test::kFamilies;
using test::kProtocols;
using test::local_of;
using test::new_socket;
using test::new_table;
using test::option_of;
using test::stranger;
using test::succeeded;
using testing::HasSubstr;

const TableOptions kNoRest = {.rest_period = milliseconds(0)};

TEST(Bind, BindsAFreshPortOfTheRangeInEveryProtocolAndFamily) {
    in_network_namespace([] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol);
            for (const Family family : kFamilies) {
                for (const Address& local : {Address::any(family), Address::loopback(family)}) {
                    const Socket socket = new_socket(protocol, family);
                    const auto port = table.bind(socket, local);
                    ASSERT_TRUE(succeeded(port)) << local.to_string();
                    EXPECT_EQ(local_of(socket.fd()), local.with_port(port->number()));
                    EXPECT_TRUE((PortRange{32768, 33791}).contains(port->number()));
                }
            }
            EXPECT_EQ(table.statistics().refused_count, 0U);
        }
    });
}

TEST(Bind, BindsADescriptorThatBerthDidNotMake) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const Descriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
        const auto port = table.bind(socket.get(), Address::any(Family::ipv4));
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(local_of(socket.get()).port(), port->number());
    });
}

TEST(Bind, PortRestsAfterItsHolderWentAndComesBack) {
    in_network_namespace({.range = {40000, 40003}}, [] {
        PortTable table = new_table(Protocol::udp, {.rest_period = milliseconds(30)});
        {
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            const auto port = table.bind(socket, Address::any(Family::ipv4));
            ASSERT_TRUE(succeeded(port));
            EXPECT_EQ(table.statistics().free_count, 3U);
        }
        EXPECT_EQ(table.statistics().resting_count, 1U);
        EXPECT_TRUE(test::poll_until([&] {
            // A release advances the rests.
            static_cast<void>(table.take());
            return table.statistics().early_rest_count > 0 || table.statistics().free_count >= 1;
        }));
    });
}

TEST(Bind, V6WildcardSocketOccupiesThePortInV4) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            const Socket v6 = new_socket(protocol, Family::ipv6);
            const auto port = table.bind(v6, Address::any(Family::ipv6));
            ASSERT_TRUE(succeeded(port));
            const Socket v4 = new_socket(protocol, Family::ipv4);
            EXPECT_TRUE(
                failed_with(table.bind(v4, Address::any(Family::ipv4)), Errc::ports_exhausted));
            EXPECT_TRUE(failed_with(table.bind(v4, address("127.0.0.2")), Errc::ports_exhausted));
        }
    });
}

TEST(Bind, V6OnlyWildcardSocketLeavesThePortToV4) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            const Socket v6 = new_socket(protocol, Family::ipv6, true);
            const auto v6_port = table.bind(v6, Address::any(Family::ipv6));
            ASSERT_TRUE(succeeded(v6_port));
            const Socket v4 = new_socket(protocol, Family::ipv4);
            const auto v4_port = table.bind(v4, Address::any(Family::ipv4));
            EXPECT_TRUE(succeeded(v4_port));
            const Socket another = new_socket(protocol, Family::ipv6);
            EXPECT_TRUE(failed_with(table.bind(another, Address::any(Family::ipv6)),
                                    Errc::ports_exhausted));
        }
    });
}

TEST(Bind, PortOfASpecificAddressServesOtherAddressesButNotTheWildcard) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            const Socket second = new_socket(protocol, Family::ipv4);
            const auto second_port = table.bind(second, address("127.0.0.2"));
            ASSERT_TRUE(succeeded(second_port));
            const Socket third = new_socket(protocol, Family::ipv4);
            const auto third_port = table.bind(third, address("127.0.0.3"));
            EXPECT_TRUE(succeeded(third_port));
            const Socket v6 = new_socket(protocol, Family::ipv6);
            const auto v6_port = table.bind(v6, Address::loopback(Family::ipv6));
            EXPECT_TRUE(succeeded(v6_port));
            const Socket wildcard = new_socket(protocol, Family::ipv4);
            EXPECT_TRUE(failed_with(table.bind(wildcard, Address::any(Family::ipv4)),
                                    Errc::ports_exhausted));
        }
    });
}

TEST(Bind, V4MappedAddressIsTheV4Address) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        const Socket v6 = new_socket(Protocol::udp, Family::ipv6);
        const auto port = table.bind(v6, address("::ffff:127.0.0.2"));
        ASSERT_TRUE(succeeded(port));
        const Socket v4 = new_socket(Protocol::udp, Family::ipv4);
        EXPECT_TRUE(failed_with(table.bind(v4, address("127.0.0.2")), Errc::ports_exhausted));
        EXPECT_TRUE(succeeded(table.bind(v4, address("127.0.0.3"))));
        EXPECT_EQ(table.statistics().refused_count, 0U);
    });
}

// The table tells ten addresses apart; the kernel tells all.
TEST(Bind, MoreAddressesThanTheTableTellsApartStillGetEveryPort) {
    in_network_namespace({.range = {40000, 40003}}, [] {
        PortTable table = new_table(
            Protocol::udp, {.rest_period = milliseconds(0), .recheck_interval = milliseconds(0)});
        std::vector<std::pair<Socket, Port>> held;
        for (unsigned i = 0; i < 14; ++i) {
            const Address local = address(("127.0.1." + std::to_string(i + 1)).c_str());
            for (unsigned n = 0; n < 4; ++n) {
                Socket socket = new_socket(Protocol::udp, Family::ipv4);
                auto port = table.bind(socket, local);
                ASSERT_TRUE(succeeded(port)) << local.to_string() << " #" << n;
                held.emplace_back(std::move(socket), std::move(*port));
            }
            const Socket socket = new_socket(Protocol::udp, Family::ipv4);
            EXPECT_TRUE(failed_with(table.bind(socket, local), Errc::ports_exhausted));
        }
    });
}

TEST(Bind, ReuseOptionsOfTheCallerNeverYieldAUsedPortAndStaySet) {
    in_network_namespace({.range = {40000, 40007}}, [] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol, kNoRest);
            std::set<std::uint16_t> numbers;
            std::vector<std::pair<Socket, Port>> held;
            for (unsigned i = 0; i < 8; ++i) {
                Socket socket = new_socket(protocol, Family::ipv4);
                ASSERT_TRUE(succeeded(socket.set_reuse_address(true)));
                ASSERT_TRUE(succeeded(socket.set_reuse_port(true)));
                auto port = table.bind(socket, Address::any(Family::ipv4));
                ASSERT_TRUE(succeeded(port));
                EXPECT_TRUE(numbers.insert(port->number()).second) << port->number();
                EXPECT_NE(option_of(socket.fd(), SOL_SOCKET, SO_REUSEADDR), 0);
                EXPECT_NE(option_of(socket.fd(), SOL_SOCKET, SO_REUSEPORT), 0);
                held.emplace_back(std::move(socket), std::move(*port));
            }
            Socket socket = new_socket(protocol, Family::ipv4);
            ASSERT_TRUE(succeeded(socket.set_reuse_port(true)));
            EXPECT_TRUE(
                failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
            EXPECT_NE(option_of(socket.fd(), SOL_SOCKET, SO_REUSEPORT), 0);
        }
    });
}

TEST(Bind, ReusePortsOfStrangersAreNotShared) {
    in_network_namespace({.range = {40000, 40001}}, [] {
        Socket theirs = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(succeeded(theirs.set_reuse_port(true)));
        const Address taken = Address::any(Family::ipv4, 40000);
        ASSERT_EQ(::bind(theirs.fd(), taken.data(), taken.size()), 0);
        TableOptions blind = kNoRest;
        blind.reconcile_at_start = false;
        for (const Sharing sharing : {Sharing::none, Sharing::reuse_port}) {
            PortTable table = new_table(Protocol::udp, blind);
            Socket ours = new_socket(Protocol::udp, Family::ipv4);
            ASSERT_TRUE(succeeded(ours.set_reuse_port(true)));
            const auto port = table.bind(ours, Address::any(Family::ipv4), {.sharing = sharing});
            ASSERT_TRUE(succeeded(port));
            EXPECT_EQ(port->number(), 40001);
        }
    });
}

TEST(Bind, SharingByNameLetsASecondSocketHaveThePort) {
    in_network_namespace([] {
        for (const Protocol protocol : kProtocols) {
            PortTable table = new_table(protocol);
            const Socket first = new_socket(protocol, Family::ipv4);
            const BindOptions shared = {.sharing = Sharing::reuse_port};
            const auto port = table.bind(first, Address::any(Family::ipv4), shared);
            ASSERT_TRUE(succeeded(port));
            const Address same = Address::any(Family::ipv4, port->number());
            const Socket second = new_socket(protocol, Family::ipv4);
            auto guest = table.bind(second, same, shared);
            ASSERT_TRUE(succeeded(guest));
            EXPECT_EQ(guest->number(), port->number());
            guest->release();
            const Socket third = new_socket(protocol, Family::ipv4);
            EXPECT_TRUE(failed_with(table.bind(third, same), Errc::port_in_use));
            EXPECT_EQ(table.statistics().free_count, 1023U);
        }
    });
}

TEST(Bind, ExplicitPortIsBoundInsideAndOutsideTheRange) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::tcp, kNoRest);
        for (const std::uint16_t number : {std::uint16_t{33000}, std::uint16_t{50000}}) {
            const Address local = Address::any(Family::ipv4, number);
            Socket socket = new_socket(Protocol::tcp, Family::ipv4);
            auto port = table.bind(socket, local);
            ASSERT_TRUE(succeeded(port));
            EXPECT_EQ(port->number(), number);
            const Socket second = new_socket(Protocol::tcp, Family::ipv4);
            EXPECT_TRUE(failed_with(table.bind(second, local), Errc::port_in_use));
            socket.close();
            port->release();
            EXPECT_TRUE(succeeded(table.bind(second, local)));
        }
        EXPECT_EQ(table.statistics().free_count, 1024U);
    });
}

TEST(Bind, ExplicitPortThatAStrangerHasIsRefusedAndRemembered) {
    in_network_namespace({.range = {40000, 40000}}, [] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        const Address local = Address::any(Family::ipv4, 40000);
        const Descriptor theirs = stranger(Protocol::udp, local);
        const Socket ours = new_socket(Protocol::udp, Family::ipv4);
        const auto port = table.bind(ours, local);
        ASSERT_TRUE(failed_with(port, Errc::port_in_use));
        EXPECT_THAT(port.error().message(), HasSubstr("udp 0.0.0.0:40000"));
        EXPECT_EQ(table.statistics().free_count, 0U);
    });
}

TEST(Bind, TakenPortCanBeBoundByNumberAndStaysItsHolders) {
    in_network_namespace([] {
        for (const Family family : kFamilies) {
            PortTable table = new_table(Protocol::udp);
            auto port = table.take();
            ASSERT_TRUE(succeeded(port));
            const Socket socket = new_socket(Protocol::udp, family);
            {
                const auto bound = table.bind(socket, Address::any(family, port->number()));
                ASSERT_TRUE(succeeded(bound));
                EXPECT_EQ(bound->number(), port->number());
            }
            EXPECT_EQ(table.statistics().resting_count, 0U) << "the guest gave it back";
            port->release();
            EXPECT_EQ(table.statistics().resting_count, 1U);
        }
    });
}

TEST(Bind, LeasedPortIsNotBoundByNumberWithoutItsToken) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const auto lease = table.lease();
        ASSERT_TRUE(succeeded(lease));
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const Address local = Address::any(Family::ipv4, lease->ports[0]);
        const auto refused = table.bind(socket, local);
        ASSERT_TRUE(failed_with(refused, Errc::port_in_use));
        EXPECT_THAT(refused.error().message(), HasSubstr("leased"));
        const auto claimed = table.claim(lease->ports[0], lease->token);
        ASSERT_TRUE(succeeded(claimed));
        EXPECT_TRUE(succeeded(table.bind(socket, local)));
    });
}

TEST(Bind, LeasedPortIsNotBoundOnASpecificAddressEither) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const auto lease = table.lease();
        ASSERT_TRUE(succeeded(lease));
        for (const Family family : kFamilies) {
            const Socket socket = new_socket(Protocol::udp, family);
            EXPECT_TRUE(failed_with(table.bind(socket, Address::loopback(family, lease->ports[0])),
                                    Errc::port_in_use));
        }
        EXPECT_EQ(table.statistics().leased_count, 1U);
    });
}

TEST(Bind, ExpiredLeaseDoesNotKeepItsPortFromABindByNumber) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const auto lease = table.lease({.expires_in = milliseconds(1)});
        ASSERT_TRUE(succeeded(lease));
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        Result<Port> port;
        EXPECT_TRUE(test::poll_until([&] {
            port = table.bind(socket, Address::any(Family::ipv4, lease->ports[0]));
            return port.has_value();
        }));
        EXPECT_EQ(table.statistics().leased_count, 0U);
    });
}

TEST(Bind, BindAddressNoPortLeavesThePortToConnect) {
    in_network_namespace([] {
        const Descriptor server = test::listener(address("127.0.0.1:0"));
        PortTable table = new_table(Protocol::tcp);
        Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        ASSERT_TRUE(succeeded(socket.set_bind_address_no_port(true)));
        const auto bound = table.bind(socket, address("127.0.0.5"));
        ASSERT_TRUE(succeeded(bound));
        EXPECT_EQ(bound->number(), 0);
        EXPECT_EQ(local_of(socket.fd()), address("127.0.0.5"));
        const auto port = table.connect(socket, local_of(server.get()));
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(local_of(socket.fd()), address("127.0.0.5").with_port(port->number()));
    });
}

TEST(Bind, BindAddressNoPortOfUdpIsServedByConnect) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(succeeded(socket.set_bind_address_no_port(true)));
        ASSERT_TRUE(succeeded(table.bind(socket, address("127.0.0.5"))));
        const auto port = table.connect(socket, address("127.0.0.1:9"));
        ASSERT_TRUE(succeeded(port));
        EXPECT_EQ(local_of(socket.fd()), address("127.0.0.5").with_port(port->number()));
    });
}

TEST(Bind, PortRangeOfTheSocketIsRespectedAndStays) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp, kNoRest);
        std::vector<std::pair<Socket, Port>> held;
        std::set<std::uint16_t> numbers;
        for (unsigned i = 0; i < 3; ++i) {
            Socket socket = new_socket(Protocol::udp, Family::ipv4);
            ASSERT_TRUE(succeeded(socket.set_local_port_range({33000, 33002})));
            auto port = table.bind(socket, Address::any(Family::ipv4));
            ASSERT_TRUE(succeeded(port));
            EXPECT_TRUE((PortRange{33000, 33002}).contains(port->number())) << port->number();
            EXPECT_TRUE(numbers.insert(port->number()).second);
            EXPECT_EQ(option_of(socket.fd(), IPPROTO_IP, IP_LOCAL_PORT_RANGE), 33002 << 16 | 33000);
            held.emplace_back(std::move(socket), std::move(*port));
        }
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(succeeded(socket.set_local_port_range({33000, 33002})));
        EXPECT_TRUE(
            failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::ports_exhausted));
    });
}

TEST(Bind, PortRangeOfTheSocketOutsideTheTablesIsIgnoredAsTheKernelDoes) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        Socket socket = new_socket(Protocol::udp, Family::ipv4);
        ASSERT_TRUE(succeeded(socket.set_local_port_range({50000, 50010})));
        const auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(succeeded(port));
        EXPECT_TRUE(table.range().contains(port->number()));
        EXPECT_EQ(socket.options().local_port_range, (PortRange{50000, 50010}));
    });
}

TEST(Bind, SocketOfTheOtherProtocolIsRefused) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(failed_with(port, Errc::invalid_argument));
        EXPECT_THAT(port.error().message(), HasSubstr("tcp"));
        EXPECT_EQ(table.statistics().free_count, 1024U);
    });
}

TEST(Bind, AddressOfTheOtherFamilyIsRefused) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        for (const Family family : kFamilies) {
            const Family other = family == Family::ipv4 ? Family::ipv6 : Family::ipv4;
            const Socket socket = new_socket(Protocol::udp, family);
            EXPECT_TRUE(
                failed_with(table.bind(socket, Address::any(other)), Errc::invalid_argument));
        }
    });
}

TEST(Bind, DescriptorThatIsNoSocketIsRefused) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        EXPECT_TRUE(
            failed_with(table.bind(-1, Address::any(Family::ipv4)), Errc::invalid_argument));
        EXPECT_TRUE(failed_with(table.bind(STDIN_FILENO, Address::any(Family::ipv4)),
                                Errc::invalid_argument));
    });
}

TEST(Bind, SocketThatIsBoundAlreadyIsRefusedAndCostsNoPort) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const auto port = table.bind(socket, Address::any(Family::ipv4));
        ASSERT_TRUE(succeeded(port));
        EXPECT_TRUE(
            failed_with(table.bind(socket, Address::any(Family::ipv4)), Errc::invalid_argument));
        EXPECT_EQ(table.statistics().free_count, 1023U);
    });
}

TEST(Bind, AddressThatIsNotOfThisHostIsRefusedByName) {
    in_network_namespace([] {
        PortTable table = new_table(Protocol::udp);
        const Socket socket = new_socket(Protocol::udp, Family::ipv4);
        const auto port = table.bind(socket, address("192.0.2.1"));
        ASSERT_TRUE(failed_with(port, Errc::address_not_available));
        EXPECT_THAT(port.error().message(), HasSubstr("192.0.2.1"));
        EXPECT_EQ(table.statistics().free_count, 1024U);
    });
}

TEST(Bind, SwitchedOffIpv6IsAnAnswerAndLeavesIpv4) {
    in_network_namespace({.disable_ipv6 = true}, [] {
        PortTable table = new_table(Protocol::udp);
        const Socket v6 = new_socket(Protocol::udp, Family::ipv6);
        EXPECT_TRUE(failed_with(table.bind(v6, Address::loopback(Family::ipv6)),
                                Errc::address_not_available));
        const Socket v4 = new_socket(Protocol::udp, Family::ipv4);
        EXPECT_TRUE(succeeded(table.bind(v4, Address::any(Family::ipv4))));
        EXPECT_EQ(table.statistics().refused_count, 0U);
    });
}

TEST(Bind, LowPortWithoutPrivilegesIsDeniedWithItsRemedy) {
    in_network_namespace({.drop_privileges = true}, [] {
        PortTable table = new_table(Protocol::tcp);
        const Socket socket = new_socket(Protocol::tcp, Family::ipv4);
        const auto port = table.bind(socket, Address::any(Family::ipv4, 80));
        ASSERT_TRUE(failed_with(port, Errc::permission_denied));
        EXPECT_THAT(port.error().message(), HasSubstr("tcp 0.0.0.0:80"));
        EXPECT_THAT(port.error().message(), HasSubstr("CAP_NET_BIND_SERVICE"));
    });
}

}  // namespace
}  // namespace berth
