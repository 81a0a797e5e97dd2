// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/socket_facts.h"

#include "src/base/clock.h"
#include "src/base/kernel_constants.h"
#include "src/interpose/preload/guest.h"
#include "src/interpose/preload/next_calls.h"

#include <sys/socket.h>

#include <atomic>

namespace berth::internal {
namespace {

// The tick in which this thread last saw a socket of the run's namespace.
constinit thread_local std::uint64_t seen_at_home_ms = 0;

// IPV6_V6ONLY of a socket that nobody has touched: net.ipv6.bindv6only, as the first one says.
enum class Default : std::uint8_t { unknown, off, on };
constinit std::atomic<Default> v6_only_default{Default::unknown};

std::optional<SocketFacts> ask_for_facts(int fd) noexcept {
    const auto protocol = protocol_of(fd);
    if (!protocol || read_option(fd, SOL_SOCKET, SO_TYPE) == SOCK_RAW) {
        return std::nullopt;
    }
    const bool is_v6 = read_option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET6;
    return SocketFacts{*protocol, is_v6 ? Family::ipv6 : Family::ipv4, kMayHaveAnything};
}

}  // namespace

std::optional<Protocol> protocol_of(int fd) noexcept {
    switch (read_option(fd, SOL_SOCKET, SO_PROTOCOL)) {
        case IPPROTO_UDP:
            return Protocol::udp;
        case IPPROTO_TCP:
            return Protocol::tcp;
        default:
            return std::nullopt;
    }
}

std::optional<SocketFacts> facts_of(int fd) noexcept {
    const Held held = guest.held.get(fd);
    const auto facts = held.kind == HeldKind::fresh
                           ? SocketFacts{held.protocol, held.family, held.flags}
                           : ask_for_facts(fd);
    return facts && is_at_home(fd) ? facts : std::nullopt;
}

bool is_at_home(int fd) noexcept {
    const std::uint64_t now = coarse_now_ms();
    if (seen_at_home_ms == now) {
        return true;
    }
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    const bool is_home = ::getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 &&
                         cookie == guest.netns_cookie;
    seen_at_home_ms = is_home ? now : 0;
    return is_home;
}

int read_option(int fd, int level, int name) noexcept {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

bool write_option(int fd, int level, int name, int value) noexcept {
    return next_calls.setsockopt(fd, level, name, &value, sizeof value) == 0;
}

std::uint32_t read_port_range(int fd, const SocketFacts& facts) noexcept {
    return facts.has(kMayHaveRange)
               ? static_cast<std::uint32_t>(read_option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE))
               : 0;
}

bool write_port_range(int fd, std::uint32_t range) noexcept {
    return write_option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, static_cast<int>(range));
}

std::optional<Address> local_address_of(int fd) noexcept {
    sockaddr_storage storage;
    socklen_t size = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (::getsockname(fd, address, &size) != 0) {
        return std::nullopt;
    }
    return read_address(address, size);
}

std::optional<Address> local_address_of(int fd, const SocketFacts& facts) noexcept {
    return facts.has(kMayHaveAddress) ? local_address_of(fd)
                                      : std::optional(Address::any(facts.family));
}

bool is_v6_only(int fd, const SocketFacts& facts) noexcept {
    const Default known = v6_only_default.load(std::memory_order_relaxed);
    if (!facts.has(kMayBeV6Only) && known != Default::unknown) {
        return known == Default::on;
    }
    const bool is_on = has_option(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    if (!facts.has(kMayBeV6Only)) {
        v6_only_default.store(is_on ? Default::on : Default::off, std::memory_order_relaxed);
    }
    return is_on;
}

std::optional<Address> read_address(const sockaddr* address, socklen_t size) noexcept {
    if (address == nullptr) {
        return std::nullopt;
    }
    const auto read = Address::from(address, size);
    return read ? std::optional(*read) : std::nullopt;
}

ReuseCleared::ReuseCleared(int fd, const SocketFacts& facts) noexcept
    : fd_(fd),
      had_address_(facts.has(kMayReuse) && has_option(fd, SOL_SOCKET, SO_REUSEADDR)),
      had_port_(facts.has(kMayReuse) && has_option(fd, SOL_SOCKET, SO_REUSEPORT)) {
    if (had_address_) write_option(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    if (had_port_) write_option(fd, SOL_SOCKET, SO_REUSEPORT, 0);
}

ReuseCleared::~ReuseCleared() {
    if (had_address_) write_option(fd_, SOL_SOCKET, SO_REUSEADDR, 1);
    if (had_port_) write_option(fd_, SOL_SOCKET, SO_REUSEPORT, 1);
}

}  // namespace berth::internal
