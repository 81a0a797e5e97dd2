// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/address_io.h"

#include "src/engine/simulation/seeded_random.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace berth::internal::simulated {
namespace {

// SIN6_LEN_RFC2133: an IPv6 address without the scope id is taken too.
constexpr socklen_t kShortIpv6Size = 24;

}  // namespace

Address mapped(const Address& address) {
    if (address.family() == Family::ipv6) {
        return address;
    }
    sockaddr_in6 result{};
    result.sin6_family = AF_INET6;
    result.sin6_port = htons(address.port());
    result.sin6_addr.s6_addr[10] = 0xff;
    result.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(&result.sin6_addr.s6_addr[12], address.bytes().data(), 4);
    return Address::from(reinterpret_cast<const sockaddr*>(&result), sizeof(result)).value();
}

SocketName name_of(const Address& address, Family family) {
    const Address shown = family == Family::ipv6 ? mapped(address) : address;
    SocketName name;
    name.size = shown.size();
    std::memcpy(&name.storage, shown.data(), name.size);
    return name;
}

int read_address(Family family, const sockaddr* from, socklen_t size, Address& address) {
    const socklen_t least = family == Family::ipv4 ? sizeof(sockaddr_in) : kShortIpv6Size;
    if (size < least) {
        return -EINVAL;
    }
    sockaddr_in6 copy{};
    std::memcpy(&copy, from, std::min<std::size_t>(size, sizeof(copy)));
    if (copy.sin6_family != (family == Family::ipv4 ? AF_INET : AF_INET6)) {
        return -EAFNOSUPPORT;
    }
    const socklen_t full = family == Family::ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    address = Address::from(reinterpret_cast<const sockaddr*>(&copy), full).value();
    return 0;
}

std::size_t share_of(const Address& peer, std::size_t count) {
    std::uint64_t mixed = peer.port();
    for (const std::uint8_t byte : peer.bytes()) mixed = mixed * 31 + byte;
    return SeededRandom(mixed).below(count);
}

Address host_of(const Address& address) { return address.unmapped().with_port(0); }

}  // namespace berth::internal::simulated
