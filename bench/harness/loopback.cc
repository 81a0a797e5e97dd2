// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/loopback.h"

#include "bench/harness/environment.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <cerrno>

#include <algorithm>
#include <string>

namespace berth::bench {
namespace {

constexpr int kBacklog = 65'535;  // cut to net.core.somaxconn
constexpr std::uint16_t kFirstPort = 8'000;
constexpr std::uint16_t kPortCount = 20'000;
constexpr unsigned kAddressCount = 8;

template <class T>
void set_option(int socket, int level, int option, const T& value) {
    // One that is refused makes the figures worse, for every program alike.
    static_cast<void>(::setsockopt(socket, level, option, &value, sizeof(value)));
}

void prepare(int socket) {
    constexpr char kCongestionControl[] = "cubic";
    static_cast<void>(::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl,
                                   sizeof(kCongestionControl) - 1));
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<Descriptor> open_socket(int flags) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    if (!socket.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "tcp ipv4 socket"));
    }
    prepare(socket.get());
    return socket;
}

/// The next port of a sequence, so that what is left of an earlier server is in nobody's way.
std::uint16_t next_port(PortRange range) noexcept {
    static std::uint16_t turn = 0;
    for (;;) {
        const auto port = static_cast<std::uint16_t>(kFirstPort + turn++ % kPortCount);
        if (!range.contains(port)) {
            return port;
        }
    }
}

Result<std::uint16_t> port_of(int socket) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "read", "the listener's address"));
    }
    return ntohs(address.sin_port);
}

Result<std::vector<Address>> addresses_at(std::uint16_t port, unsigned count) {
    std::vector<Address> addresses;
    for (unsigned i = 1; i <= count; ++i) {
        const Address address = BERTH_TRY(Address::parse("127.0.0." + std::to_string(i)));
        addresses.push_back(address.with_port(port));
    }
    return addresses;
}

}  // namespace

Result<Listener> listen_on_loopback(const Environment& environment) {
    constexpr int kTries = 100;
    const bool is_host = environment.isolation == Isolation::host;
    Descriptor socket = BERTH_TRY(open_socket(SOCK_NONBLOCK));
    set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    for (int i = 0; i < kTries; ++i) {
        const Address wanted = is_host ? Address::loopback(Family::ipv4)
                                       : Address::any(Family::ipv4, next_port(environment.range));
        if (::bind(socket.get(), wanted.data(), wanted.size()) == 0) {
            break;
        }
    }
    if (::listen(socket.get(), kBacklog) != 0) {
        return std::unexpected(Error::from_errno(errno, "listen", "127.0.0.1"));
    }
    const std::uint16_t port = BERTH_TRY(port_of(socket.get()));
    auto addresses = BERTH_TRY(addresses_at(port, is_host ? 1 : kAddressCount));
    return Listener{std::move(socket), std::move(addresses)};
}

Result<std::vector<Descriptor>> connect_many(const std::vector<Address>& addresses,
                                             unsigned count) {
    std::vector<Descriptor> sockets;
    for (unsigned i = 0; i < count; ++i) {
        sockets.push_back(BERTH_TRY(connect_to(addresses[i % addresses.size()])));
    }
    return sockets;
}

Result<Descriptor> connect_to(const Address& address) {
    Descriptor socket = BERTH_TRY(open_socket(0));
    set_option(socket.get(), SOL_SOCKET, SO_LINGER, linger{1, 0});
    if (::connect(socket.get(), address.data(), address.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "connect", address.to_string()));
    }
    if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) {
        return std::unexpected(Error::from_errno(errno, "set", "O_NONBLOCK"));
    }
    return socket;
}

unsigned most_connections(const Environment& environment) noexcept {
    const unsigned descriptors = environment.descriptor_limit > kSpareDescriptors
                                     ? environment.descriptor_limit - kSpareDescriptors
                                     : 1;
    return std::min(usable_port_count(environment), descriptors);
}

}  // namespace berth::bench
