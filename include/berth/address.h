// SPDX-License-Identifier: Apache-2.0
#pragma once

// An IPv4 or IPv6 address with a port, as bind() and connect() take it. A value of 28 bytes; no
// names are resolved here.

#include <berth/error.h>
#include <berth/export.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth {

enum class Family : std::uint8_t { ipv4, ipv6 };
enum class Protocol : std::uint8_t { udp, tcp };

BERTH_API std::string_view to_string(Family family) noexcept;
BERTH_API std::string_view to_string(Protocol protocol) noexcept;

class BERTH_API Address {
public:
    /// 0.0.0.0:0
    Address() noexcept;
    /// The wildcard address; `port` is in host order, as everywhere in berth.
    static Address any(Family family, std::uint16_t port = 0) noexcept;
    /// 127.0.0.1 or ::1.
    static Address loopback(Family family, std::uint16_t port = 0) noexcept;
    /// "192.0.2.1", "192.0.2.1:53", "2001:db8::1", "[2001:db8::1%eth0]:53". Numeric only.
    /// **Errors:** invalid_argument.
    static Result<Address> parse(std::string_view text);
    /// **Errors:** invalid_argument for a family other than AF_INET and AF_INET6, or a short one.
    static Result<Address> from(const sockaddr* address, socklen_t size);

    Family family() const noexcept {
        return storage_.base.sa_family == AF_INET6 ? Family::ipv6 : Family::ipv4;
    }
    std::uint16_t port() const noexcept { return ntohs(storage_.v4.sin_port); }
    Address with_port(std::uint16_t port) const noexcept {
        Address copy = *this;
        copy.storage_.v4.sin_port = htons(port);
        return copy;
    }
    /// Of these two: a v4-mapped address counts as the IPv4 address that it is for the kernel.
    bool is_wildcard() const noexcept;
    bool is_loopback() const noexcept;
    /// An IPv4 address written in IPv6 form (::ffff:a.b.c.d).
    bool is_v4_mapped() const noexcept;
    /// A v4-mapped address as IPv4; any other unchanged.
    Address unmapped() const noexcept;
    /// The address in network order; IPv4 fills the first 4 bytes, the rest are 0.
    std::array<std::uint8_t, 16> bytes() const noexcept;
    /// IPv6 scope id; 0 for none and for IPv4.
    std::uint32_t scope_id() const noexcept;

    const sockaddr* data() const noexcept { return &storage_.base; }
    socklen_t size() const noexcept {
        return family() == Family::ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    }

    /// "192.0.2.1:53", "[2001:db8::1]:53"; without a port (0) "192.0.2.1", "2001:db8::1".
    std::string to_string() const;

    friend BERTH_API bool operator==(const Address& a, const Address& b) noexcept;

private:
    union Storage {
        sockaddr base;
        sockaddr_in v4;
        sockaddr_in6 v6;
    } storage_;
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
};

}  // namespace berth
