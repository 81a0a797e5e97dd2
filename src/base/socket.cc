// SPDX-License-Identifier: Apache-2.0
#include <berth/socket.h>

#include "src/base/kernel_constants.h"
#include "src/base/socket_traits.h"
#include "src/base/system_calls.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include <sys/ioctl.h>

namespace berth {
namespace {

struct SocketOption {
    int level;
    int name;
    const char* text;
};

constexpr SocketOption kDomain = {SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN"};
constexpr SocketOption kProtocol = {SOL_SOCKET, SO_PROTOCOL, "SO_PROTOCOL"};
constexpr SocketOption kReuseAddress = {SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR"};
constexpr SocketOption kReusePort = {SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT"};
constexpr SocketOption kV6Only = {IPPROTO_IPV6, IPV6_V6ONLY, "IPV6_V6ONLY"};
// These two are options of the IPv4 level also on an IPv6 socket.
constexpr SocketOption kNoPort = {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, "IP_BIND_ADDRESS_NO_PORT"};
constexpr SocketOption kPortRange = {IPPROTO_IP, IP_LOCAL_PORT_RANGE, "IP_LOCAL_PORT_RANGE"};

const char* remedy_for(const SocketOption& option, int reason) noexcept {
    if (option.name == IP_LOCAL_PORT_RANGE && reason == ENOPROTOOPT) {
        return "it needs Linux 6.3 or newer";
    }
    if (option.name == IPV6_V6ONLY && reason == EINVAL) {
        return "set it before the socket is bound";
    }
    return nullptr;
}

/// "SO_REUSEADDR of fd 5", without allocating.
struct Subject {
    std::array<char, 64> text{};

    Subject(const char* what, int fd) noexcept {
        std::snprintf(text.data(), text.size(), "%s of fd %d", what, fd);
    }
    std::string_view view() const noexcept { return text.data(); }
};

Result<int> get_option(int fd, const SocketOption& option) {
    int value = 0;
    socklen_t size = sizeof(value);
    if (internal::calls().getsockopt(fd, option.level, option.name, &value, &size) != 0) {
        const int reason = errno;
        return std::unexpected(Error::from_errno(reason, "read", Subject(option.text, fd).view()));
    }
    return value;
}

Result<void> set_option(int fd, const SocketOption& option, int value) {
    if (internal::calls().setsockopt(fd, option.level, option.name, &value, sizeof(value)) != 0) {
        const int reason = errno;
        return std::unexpected(Error::from_errno(reason, "set", Subject(option.text, fd).view(),
                                                 remedy_for(option, reason)));
    }
    return {};
}

/// Like the kernel before 6.3, which lacks the option, a socket without a range has {0, 0}.
Result<PortRange> get_port_range(int fd) {
    const Result<int> value = get_option(fd, kPortRange);
    if (!value && value.error().system_errno() == ENOPROTOOPT) {
        return PortRange{0, 0};
    }
    const auto bits = static_cast<std::uint32_t>(BERTH_TRY(value));
    return PortRange{static_cast<std::uint16_t>(bits & 0xffff),
                     static_cast<std::uint16_t>(bits >> 16)};
}

Result<SocketOptions> read_options(int fd, Family family) {
    SocketOptions options;
    options.reuse_address = BERTH_TRY(get_option(fd, kReuseAddress)) != 0;
    options.reuse_port = BERTH_TRY(get_option(fd, kReusePort)) != 0;
    if (family == Family::ipv6) {
        options.v6_only = BERTH_TRY(get_option(fd, kV6Only)) != 0;
    }
    options.bind_address_no_port = BERTH_TRY(get_option(fd, kNoPort)) != 0;
    options.local_port_range = BERTH_TRY(get_port_range(fd));
    return options;
}

std::unexpected<Error> refuse_socket(int fd) {
    return std::unexpected(Error(Errc::invalid_argument, "adopt", Subject("protocol", fd).view(), 0,
                                 "it is no UDP or TCP socket over IPv4 or IPv6"));
}

Error open_error(int system_errno, Protocol protocol, Family family) {
    constexpr const char* kSubjects[2][2] = {{"udp ipv4 socket", "udp ipv6 socket"},
                                             {"tcp ipv4 socket", "tcp ipv6 socket"}};
    const char* subject =
        kSubjects[protocol == Protocol::udp ? 0 : 1][family == Family::ipv4 ? 0 : 1];
    if (system_errno == EAFNOSUPPORT && family == Family::ipv6) {
        return {Errc::unsupported,
                "open",
                subject,
                system_errno,
                "IPv6 is switched off",
                "use IPv4, or boot the kernel without ipv6.disable=1"};
    }
    return Error::from_errno(system_errno, "open", subject);
}

}  // namespace

Result<Socket> Socket::open(Protocol protocol, Family family, bool is_nonblocking) {
    const int domain = family == Family::ipv4 ? AF_INET : AF_INET6;
    const int type = (protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM) |
                     (is_nonblocking ? SOCK_NONBLOCK : 0);
    Socket socket;
    socket.descriptor_.reset(internal::calls().socket(domain, type | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) {
        return std::unexpected(open_error(errno, protocol, family));
    }
    socket.protocol_ = protocol;
    socket.family_ = family;
    // The only option whose default is not the kernel's but the namespace's (net.ipv6.bindv6only).
    if (family == Family::ipv6) {
        socket.options_.v6_only = BERTH_TRY(get_option(socket.fd(), kV6Only)) != 0;
    }
    return socket;
}

Result<internal::SocketTraits> internal::read_socket_traits(int fd) {
    // SO_PROTOCOL rather than SO_TYPE: MPTCP, SCTP and UDP-Lite have port rules of their own.
    const Result<int> domain = get_option(fd, kDomain);
    const Result<int> protocol = get_option(fd, kProtocol);
    if (!domain || (*domain != AF_INET && *domain != AF_INET6)) {
        return refuse_socket(fd);
    }
    if (!protocol || (*protocol != IPPROTO_UDP && *protocol != IPPROTO_TCP)) {
        return refuse_socket(fd);
    }
    SocketTraits traits;
    traits.fd = fd;
    traits.protocol = *protocol == IPPROTO_UDP ? Protocol::udp : Protocol::tcp;
    traits.family = *domain == AF_INET ? Family::ipv4 : Family::ipv6;
    traits.options = BERTH_TRY(read_options(fd, traits.family));
    return traits;
}

Result<Socket> Socket::adopt(Descriptor descriptor) {
    const internal::SocketTraits traits = BERTH_TRY(internal::read_socket_traits(descriptor.get()));
    Socket socket;
    socket.descriptor_ = std::move(descriptor);
    socket.protocol_ = traits.protocol;
    socket.family_ = traits.family;
    socket.options_ = traits.options;
    return socket;
}

Result<void> Socket::set_reuse_address(bool on) {
    BERTH_TRY(set_option(fd(), kReuseAddress, on ? 1 : 0));
    options_.reuse_address = on;
    return {};
}

Result<void> Socket::set_reuse_port(bool on) {
    BERTH_TRY(set_option(fd(), kReusePort, on ? 1 : 0));
    options_.reuse_port = on;
    return {};
}

Result<void> Socket::set_v6_only(bool on) {
    if (family_ != Family::ipv6) {
        return std::unexpected(Error(Errc::invalid_argument, "set",
                                     Subject(kV6Only.text, fd()).view(), 0,
                                     "it is an IPv4 socket"));
    }
    BERTH_TRY(set_option(fd(), kV6Only, on ? 1 : 0));
    options_.v6_only = on;
    return {};
}

Result<void> Socket::set_bind_address_no_port(bool on) {
    BERTH_TRY(set_option(fd(), kNoPort, on ? 1 : 0));
    options_.bind_address_no_port = on;
    return {};
}

Result<void> Socket::set_local_port_range(PortRange range) {
    if (range.last != 0 && range.first > range.last) {
        return std::unexpected(Error(Errc::invalid_argument, "set",
                                     Subject(kPortRange.text, fd()).view(), 0,
                                     "the range ends before it starts",
                                     "give 1 <= first <= last, or 0 for the namespace's bound"));
    }
    const std::uint32_t bits = range.first | static_cast<std::uint32_t>(range.last) << 16;
    BERTH_TRY(set_option(fd(), kPortRange, static_cast<int>(bits)));
    options_.local_port_range = range;
    return {};
}

Result<void> Socket::set_nonblocking(bool on) {
    int value = on ? 1 : 0;
    if (internal::calls().ioctl(fd(), FIONBIO, &value) != 0) {
        const int reason = errno;
        return std::unexpected(Error::from_errno(reason, "set", Subject("FIONBIO", fd()).view()));
    }
    return {};
}

Result<void> Socket::reload_options() {
    options_ = BERTH_TRY(read_options(fd(), family_));
    return {};
}

Result<Address> internal::read_local_address(int fd) {
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (internal::calls().getsockname(fd, address, &size) != 0) {
        const int reason = errno;
        return std::unexpected(
            Error::from_errno(reason, "read", Subject("local address", fd).view()));
    }
    return Address::from(address, size);
}

Result<Address> Socket::local_address() const { return internal::read_local_address(fd()); }

}  // namespace berth
