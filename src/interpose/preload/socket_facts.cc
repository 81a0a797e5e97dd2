// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/socket_facts.h"

#include "src/base/clock.h"
#include "src/base/kernel_constants.h"
#include "src/interpose/preload/guest.h"

#include <sys/socket.h>

namespace berth::internal {
namespace {

// The tick in which this thread last saw a socket of the run's namespace.
constinit thread_local std::uint64_t seen_at_home_ms = 0;

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
    return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

std::uint32_t read_port_range(int fd) noexcept {
    return static_cast<std::uint32_t>(read_option(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE));
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

std::optional<Address> read_address(const sockaddr* address, socklen_t size) noexcept {
    if (address == nullptr) {
        return std::nullopt;
    }
    const auto read = Address::from(address, size);
    return read ? std::optional(*read) : std::nullopt;
}

bool is_raw(int fd) noexcept { return read_option(fd, SOL_SOCKET, SO_TYPE) == SOCK_RAW; }

ReuseCleared::ReuseCleared(int fd) noexcept
    : fd_(fd),
      had_address_(has_option(fd, SOL_SOCKET, SO_REUSEADDR)),
      had_port_(has_option(fd, SOL_SOCKET, SO_REUSEPORT)) {
    if (had_address_) write_option(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    if (had_port_) write_option(fd, SOL_SOCKET, SO_REUSEPORT, 0);
}

ReuseCleared::~ReuseCleared() {
    if (had_address_) write_option(fd_, SOL_SOCKET, SO_REUSEADDR, 1);
    if (had_port_) write_option(fd_, SOL_SOCKET, SO_REUSEPORT, 1);
}

}  // namespace berth::internal
