// SPDX-License-Identifier: Apache-2.0
#include "tests/interpose/bpf/covered.h"

#include "src/ports/kernel_view.h"

#include <netinet/tcp.h>

#include <cerrno>
#include <utility>

namespace berth::test {
namespace {

using namespace internal::bpf;

bool is_missing(const Error& error) {
    return error.code() == Errc::permission_denied || error.code() == Errc::unsupported;
}

Descriptor raw_socket(Protocol protocol, Family family) {
    return Descriptor(
        ::socket(family == Family::ipv4 ? AF_INET : AF_INET6,
                 (protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0));
}

std::uint16_t port_of(const Descriptor& socket) { return local_of(socket.get()).port(); }

}  // namespace

TableMap Covered::table(Protocol protocol) {
    const std::uint64_t cookie = own_netns_cookie().value();
    return cover_.maps()
        .table({.netns_cookie = cookie, .protocol = number_of(protocol), .unused = 0})
        .value()
        .value();
}

berth_kind Covered::owner_kind(Protocol protocol, std::uint16_t port) {
    return internal::bpf::kind_of(table(protocol).owner(port));
}

LookReport Covered::look() {
    const Result<LookReport> report = cover_.look();
    EXPECT_TRUE(succeeded(report));
    return report.value_or(LookReport{});
}

void Covered::look_thoroughly() {
    for (int i = 0; i < 3; ++i) look();
}

testing::AssertionResult Covered::is_true(Protocol protocol) {
    const internal::KernelSockets kernel = internal::read_kernel_sockets(protocol).value();
    PortWords used{};
    PortWords waiting{};
    for (const internal::KernelSocket& socket : kernel.sockets) {
        const bool is_waiting = protocol == Protocol::tcp && socket.tcp_state == TCP_TIME_WAIT;
        add_port(is_waiting ? waiting : used, socket.local.port());
    }
    const TableMap map = table(protocol);
    std::string wrong;
    for (unsigned port = kSmallRange.first; port <= kSmallRange.last; ++port) {
        const berth_kind kind = internal::bpf::kind_of(map.owner(port));
        const bool has_owner = kind != BERTH_NOBODY && kind != BERTH_PENDING;
        const bool is_known = map.is_free(port) || map.is_resting(port, false) ||
                              map.is_resting(port, true) || !map.is_allowed(port);
        if (has_owner != has_port(used, port) || kind == BERTH_PENDING ||
            (kind == BERTH_NOBODY && !is_known) || (has_port(waiting, port) && map.is_free(port))) {
            wrong += std::to_string(port) + ':' + std::to_string(kind) +
                     (has_port(used, port) ? "u " : " ");
        }
    }
    if (wrong.empty()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the table is wrong about (port:kind): " << wrong;
}

void in_covered_namespace(const NamespaceOptions& options, const CoverOptions& cover_options,
                          const std::function<void(Covered&)>& body) {
    in_network_namespace(options, [&] {
        Result<Cover> cover = Cover::create(cover_options);
        if (!cover && is_missing(cover.error())) {
            GTEST_SKIP() << cover.error().message();
        }
        ASSERT_TRUE(succeeded(cover));
        ASSERT_TRUE(succeeded(cover->enter()));
        Covered covered(*cover);
        body(covered);
    });
}

Bound bind_zero(Protocol protocol, const Address& local) { return bind_to(protocol, local); }

Bound bind_to(Protocol protocol, const Address& local, bool is_reusing_port) {
    Bound bound{.socket = raw_socket(protocol, local.family())};
    const int on = 1;
    if (is_reusing_port) {
        ::setsockopt(bound.socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    }
    if (::bind(bound.socket.get(), local.data(), local.size()) != 0) {
        bound.error = errno;
        return bound;
    }
    bound.port = port_of(bound.socket);
    return bound;
}

Bound connect_new(Protocol protocol, const Address& remote) {
    Bound bound{.socket = raw_socket(protocol, remote.family())};
    if (::connect(bound.socket.get(), remote.data(), remote.size()) != 0) {
        bound.error = errno;
        return bound;
    }
    bound.port = port_of(bound.socket);
    return bound;
}

std::vector<Bound> bind_all(Protocol protocol) {
    std::vector<Bound> all;
    while (true) {
        Bound bound = bind_zero(protocol);
        if (bound.error != 0) return all;
        all.push_back(std::move(bound));
    }
}

}  // namespace berth::test
