// SPDX-License-Identifier: Apache-2.0
#include "src/ports/scout.h"

#include "src/base/kernel_constants.h"
#include "src/base/system_calls.h"

#include <net/if.h>

#include <array>
#include <cerrno>

namespace berth::internal {

Descriptor open_scout(const SocketTraits& socket, Protocol protocol) noexcept {
    const int domain = socket.family == Family::ipv4 ? AF_INET : AF_INET6;
    const int type = protocol == Protocol::udp ? SOCK_DGRAM : SOCK_STREAM;
    Descriptor scout(calls().socket(domain, type | SOCK_CLOEXEC, 0));
    if (!scout.is_open()) {
        return scout;
    }
    const int v6_only = socket.options.v6_only ? 1 : 0;
    if (socket.family == Family::ipv6) {
        calls().setsockopt(scout.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    }
    std::array<char, IF_NAMESIZE> device{};
    socklen_t size = device.size();
    if (calls().getsockopt(socket.fd, SOL_SOCKET, SO_BINDTODEVICE, device.data(), &size) == 0 &&
        size > 0) {
        calls().setsockopt(scout.get(), SOL_SOCKET, SO_BINDTODEVICE, device.data(), size);
    }
    return scout;
}

int set_port_range(int fd, PortRange range) noexcept {
    const std::uint32_t bounds = static_cast<std::uint32_t>(range.last) << 16 | range.first;
    return calls().setsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &bounds, sizeof bounds) == 0
               ? 0
               : errno;
}

}  // namespace berth::internal
