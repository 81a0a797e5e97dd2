// SPDX-License-Identifier: Apache-2.0
#include "src/ports/kernel_view.h"

#include "tests/support/network_namespace.h"

#include <berth/descriptor.h>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

using test::in_network_namespace;

constexpr std::uint8_t kBoundOnly = 13;

Address address(const char* text) { return Address::parse(text).value(); }

Address local_of(const Descriptor& socket) {
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &size);
    return Address::from(reinterpret_cast<const sockaddr*>(&storage), size).value();
}

Descriptor new_socket(Protocol protocol, Family family) {
    const int domain = family == Family::ipv4 ? AF_INET : AF_INET6;
    const int type = protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM;
    return Descriptor(::socket(domain, type | SOCK_CLOEXEC, 0));
}

Descriptor bound_socket(Protocol protocol, const Address& local, bool v6_only = false) {
    Descriptor socket = new_socket(protocol, local.family());
    if (local.family() == Family::ipv6) {
        const int value = v6_only ? 1 : 0;
        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof(value));
    }
    EXPECT_EQ(::bind(socket.get(), local.data(), local.size()), 0)
        << local.to_string() << ": " << std::strerror(errno);
    return socket;
}

Descriptor listening_socket(const Address& local, bool v6_only = false) {
    Descriptor socket = bound_socket(Protocol::tcp, local, v6_only);
    EXPECT_EQ(::listen(socket.get(), 16), 0) << std::strerror(errno);
    return socket;
}

Descriptor connected_socket(Protocol protocol, Family family, const Address& remote) {
    Descriptor socket = new_socket(protocol, family);
    EXPECT_EQ(::connect(socket.get(), remote.data(), remote.size()), 0)
        << remote.to_string() << ": " << std::strerror(errno);
    return socket;
}

// An IPv4 destination as an IPv6 socket takes it.
Address mapped(const Address& v4) {
    sockaddr_in6 raw{};
    raw.sin6_family = AF_INET6;
    raw.sin6_port = htons(v4.port());
    raw.sin6_addr.s6_addr[10] = 0xff;
    raw.sin6_addr.s6_addr[11] = 0xff;
    std::copy_n(v4.bytes().begin(), 4, &raw.sin6_addr.s6_addr[12]);
    return Address::from(reinterpret_cast<const sockaddr*>(&raw), sizeof(raw)).value();
}

KernelSockets sockets_of(Protocol protocol) {
    auto sockets = read_kernel_sockets(protocol);
    EXPECT_TRUE(sockets) << sockets.error().message();
    return sockets ? std::move(*sockets) : KernelSockets{};
}

std::optional<KernelSocket> find_local(const KernelSockets& list, const Address& local) {
    const auto found = std::ranges::find(list.sockets, local, &KernelSocket::local);
    return found == list.sockets.end() ? std::nullopt : std::optional(*found);
}

TEST(KernelSocketsList, IsEmptyInANewNamespace) {
    in_network_namespace([] {
        for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
            const KernelSockets list = sockets_of(protocol);
            EXPECT_TRUE(list.sockets.empty());
            EXPECT_FALSE(list.was_interrupted);
        }
        EXPECT_TRUE(sockets_of(Protocol::udp).saw_bound_only);
    });
}

TEST(KernelSocketsList, ShowsUdpSocketsOnSpecificAndWildcardAddresses) {
    in_network_namespace([] {
        std::vector<Descriptor> sockets;
        for (const char* text : {"0.0.0.0", "127.0.0.1", "127.9.8.7", "[::1]"}) {
            sockets.push_back(bound_socket(Protocol::udp, address(text)));
        }
        const KernelSockets list = sockets_of(Protocol::udp);
        EXPECT_EQ(list.sockets.size(), sockets.size());
        for (const Descriptor& socket : sockets) {
            const auto row = find_local(list, local_of(socket));
            ASSERT_TRUE(row) << local_of(socket).to_string();
            EXPECT_EQ(row->remote.port(), 0);
            EXPECT_FALSE(row->is_dual_stack);
        }
    });
}

TEST(KernelSocketsList, TellsDualStackFromV6Only) {
    in_network_namespace([] {
        for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
            const Descriptor dual = bound_socket(protocol, address("[::]"), false);
            const Descriptor only = bound_socket(protocol, address("[::]"), true);
            const KernelSockets list = sockets_of(protocol);
            const auto dual_row = find_local(list, local_of(dual));
            const auto only_row = find_local(list, local_of(only));
            if (protocol == Protocol::tcp && !list.saw_bound_only) {
                GTEST_SKIP() << "this kernel does not list TCP sockets that are only bound (6.8)";
            }
            ASSERT_TRUE(dual_row && only_row);
            EXPECT_TRUE(dual_row->is_dual_stack);
            EXPECT_FALSE(only_row->is_dual_stack);
        }
    });
}

TEST(KernelSocketsList, TellsDualStackFromV6OnlyInListeners) {
    in_network_namespace([] {
        const Descriptor dual = listening_socket(address("[::]"), false);
        const Descriptor only = listening_socket(address("[::]"), true);
        const Descriptor specific = listening_socket(address("[::1]"), false);
        const KernelSockets list = sockets_of(Protocol::tcp);
        ASSERT_EQ(list.sockets.size(), 3U);
        EXPECT_TRUE(find_local(list, local_of(dual))->is_dual_stack);
        EXPECT_FALSE(find_local(list, local_of(only))->is_dual_stack);
        EXPECT_FALSE(find_local(list, local_of(specific))->is_dual_stack);
        EXPECT_EQ(list.sockets.front().tcp_state, TCP_LISTEN);
    });
}

TEST(KernelSocketsList, ShowsMappedAddressesAsIpv4) {
    in_network_namespace([] {
        const Descriptor socket = bound_socket(Protocol::udp, address("[::ffff:127.0.0.1]"));
        const Descriptor wildcard = bound_socket(Protocol::udp, address("[::ffff:0.0.0.0]"));
        const KernelSockets list = sockets_of(Protocol::udp);
        const std::uint16_t port = local_of(socket).port();
        EXPECT_TRUE(find_local(list, Address::loopback(Family::ipv4, port)));
        const auto row = find_local(list, Address::any(Family::ipv4, local_of(wildcard).port()));
        ASSERT_TRUE(row);
        EXPECT_FALSE(row->is_dual_stack);
    });
}

TEST(KernelSocketsList, ShowsTcpSocketsThatAreOnlyBound) {
    in_network_namespace([] {
        const Descriptor v4 = bound_socket(Protocol::tcp, address("127.0.0.1"));
        const Descriptor v6 = bound_socket(Protocol::tcp, address("[::1]"));
        const KernelSockets list = sockets_of(Protocol::tcp);
        if (!list.saw_bound_only) {
            GTEST_SKIP() << "this kernel does not list TCP sockets that are only bound (6.8)";
        }
        ASSERT_EQ(list.sockets.size(), 2U);
        EXPECT_EQ(find_local(list, local_of(v4))->tcp_state, kBoundOnly);
        EXPECT_EQ(find_local(list, local_of(v6))->tcp_state, kBoundOnly);
    });
}

TEST(KernelSocketsList, LeavesOutSocketsWithoutAPort) {
    in_network_namespace([] {
        const Descriptor udp = new_socket(Protocol::udp, Family::ipv4);
        const Descriptor tcp = new_socket(Protocol::tcp, Family::ipv6);
        EXPECT_TRUE(sockets_of(Protocol::udp).sockets.empty());
        EXPECT_TRUE(sockets_of(Protocol::tcp).sockets.empty());
    });
}

TEST(KernelSocketsList, ShowsBothEndsOfAConnection) {
    in_network_namespace([] {
        const Descriptor listener = listening_socket(address("127.0.0.1"));
        const Address server = local_of(listener);
        const Descriptor client = connected_socket(Protocol::tcp, Family::ipv4, server);
        const Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
        const KernelSockets list = sockets_of(Protocol::tcp);
        ASSERT_EQ(list.sockets.size(), 3U);
        const auto row = find_local(list, local_of(client));
        ASSERT_TRUE(row);
        EXPECT_EQ(row->remote, server);
        EXPECT_EQ(row->tcp_state, TCP_ESTABLISHED);
        EXPECT_EQ(std::ranges::count(list.sockets, local_of(client), &KernelSocket::remote), 1);
    });
}

TEST(KernelSocketsList, ShowsConnectedUdpSockets) {
    in_network_namespace([] {
        const Address remote = address("127.0.0.1:53");
        const Descriptor v4 = connected_socket(Protocol::udp, Family::ipv4, remote);
        const Descriptor v6 = connected_socket(Protocol::udp, Family::ipv6, mapped(remote));
        const KernelSockets list = sockets_of(Protocol::udp);
        ASSERT_EQ(list.sockets.size(), 2U);
        for (const Descriptor* socket : {&v4, &v6}) {
            const auto row = find_local(list, local_of(*socket).unmapped());
            ASSERT_TRUE(row);
            EXPECT_EQ(row->remote, remote);
            EXPECT_FALSE(row->is_dual_stack);
        }
    });
}

TEST(KernelSocketsList, WorksWithIpv6SwitchedOff) {
    in_network_namespace({.disable_ipv6 = true}, [] {
        const Descriptor socket = bound_socket(Protocol::udp, address("127.0.0.1"));
        EXPECT_EQ(sockets_of(Protocol::udp).sockets.size(), 1U);
        EXPECT_TRUE(sockets_of(Protocol::tcp).sockets.empty());
    });
}

TEST(KernelSocketsList, NeedsNoPrivileges) {
    in_network_namespace({.drop_privileges = true}, [] {
        const Descriptor udp = bound_socket(Protocol::udp, address("[::]"), true);
        const Descriptor tcp = bound_socket(Protocol::tcp, address("0.0.0.0"));
        const auto row = find_local(sockets_of(Protocol::udp), local_of(udp));
        ASSERT_TRUE(row);
        EXPECT_FALSE(row->is_dual_stack);
        const KernelSockets list = sockets_of(Protocol::tcp);
        EXPECT_EQ(list.sockets.size(), list.saw_bound_only ? 1U : 0U);
    });
}

TEST(KernelSocketsList, FailsWithDescriptorsExhaustedWithoutADescriptor) {
    in_network_namespace({.descriptor_limit = 64}, [] {
        std::vector<Descriptor> sockets;
        do {
            sockets.push_back(new_socket(Protocol::udp, Family::ipv4));
        } while (sockets.back().is_open());
        const auto list = read_kernel_sockets(Protocol::udp);
        ASSERT_FALSE(list);
        EXPECT_EQ(list.error().code(), Errc::descriptors_exhausted);
        EXPECT_NE(list.error().message().find("ulimit -n"), std::string::npos);
    });
}

// More than one datagram, and every port exactly once.
TEST(KernelSocketsList, ShowsEachOfAThousandPortsOnce) {
    in_network_namespace({.range = {20000, 20999}, .descriptor_limit = 4096}, [] {
        for (const Protocol protocol : {Protocol::udp, Protocol::tcp}) {
            std::vector<Descriptor> sockets;
            std::vector<std::uint16_t> expected;
            for (std::uint16_t port = 20000; port < 21000; ++port) {
                const Address local = Address::any(port % 2 == 0 ? Family::ipv4 : Family::ipv6);
                sockets.push_back(bound_socket(protocol, local.with_port(port), true));
                expected.push_back(port);
            }
            const KernelSockets list = sockets_of(protocol);
            std::vector<std::uint16_t> ports;
            for (const KernelSocket& socket : list.sockets) {
                ports.push_back(socket.local.port());
            }
            std::ranges::sort(ports);
            EXPECT_EQ(ports, list.saw_bound_only ? expected : std::vector<std::uint16_t>{});
        }
    });
}

TEST(KernelConnections, AreThoseToOneDestinationOnly) {
    in_network_namespace([] {
        const Descriptor listener = listening_socket(address("0.0.0.0"));
        const std::uint16_t port = local_of(listener).port();
        const Address wanted = address("127.0.0.1").with_port(port);
        const Address other = address("127.0.0.2").with_port(port);
        const Descriptor elsewhere = listening_socket(address("127.0.0.1"));
        const Descriptor first = connected_socket(Protocol::tcp, Family::ipv4, wanted);
        const Descriptor second = connected_socket(Protocol::tcp, Family::ipv6, mapped(wanted));
        const Descriptor third = connected_socket(Protocol::tcp, Family::ipv4, other);
        const Descriptor fourth =
            connected_socket(Protocol::tcp, Family::ipv4, local_of(elsewhere));
        for (const Address& remote : {wanted, mapped(wanted)}) {
            const auto list = read_kernel_connections(remote);
            ASSERT_TRUE(list) << list.error().message();
            EXPECT_EQ(list->sockets.size(), 2U);
            EXPECT_TRUE(find_local(*list, local_of(first)));
            EXPECT_TRUE(find_local(*list, local_of(second).unmapped()));
        }
        EXPECT_EQ(read_kernel_connections(other)->sockets.size(), 1U);
    });
}

TEST(KernelConnections, AreFoundOverIpv6) {
    in_network_namespace([] {
        const Descriptor listener = listening_socket(address("[::1]"));
        const Descriptor client = connected_socket(Protocol::tcp, Family::ipv6, local_of(listener));
        const auto list = read_kernel_connections(local_of(listener));
        ASSERT_TRUE(list) << list.error().message();
        ASSERT_EQ(list->sockets.size(), 1U);
        EXPECT_EQ(list->sockets.front().local, local_of(client));
    });
}

TEST(KernelConnections, IncludeTimeWait) {
    in_network_namespace([] {
        const Descriptor listener = listening_socket(address("127.0.0.1"));
        const Address server = local_of(listener);
        Descriptor client = connected_socket(Protocol::tcp, Family::ipv4, server);
        Descriptor accepted(::accept(listener.get(), nullptr, nullptr));
        const Address local = local_of(client);
        client.reset();
        accepted.reset();
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        std::optional<KernelSocket> row;
        do {
            const auto list = read_kernel_connections(server);
            ASSERT_TRUE(list) << list.error().message();
            row = find_local(*list, local);
            ASSERT_TRUE(row);
        } while (row->tcp_state != TCP_TIME_WAIT && std::chrono::steady_clock::now() < deadline);
        EXPECT_EQ(row->tcp_state, TCP_TIME_WAIT);
        EXPECT_EQ(find_local(sockets_of(Protocol::tcp), local)->tcp_state, TCP_TIME_WAIT);
    });
}

TEST(KernelConnections, NeedADestinationWithAPort) {
    const auto list = read_kernel_connections(Address::loopback(Family::ipv4));
    ASSERT_FALSE(list);
    EXPECT_EQ(list.error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace berth::internal
