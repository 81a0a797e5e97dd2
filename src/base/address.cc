// SPDX-License-Identifier: Apache-2.0
#include <berth/address.h>

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>

namespace berth {
namespace {

constexpr std::size_t kShortV6Size = offsetof(sockaddr_in6, sin6_scope_id);

struct AddressParts {
    std::string_view host;
    std::string_view scope;
    std::string_view port;
    Family family = Family::ipv4;
    bool has_scope = false;
    bool has_port = false;
};

/// Cuts the text where its punctuation says; what is between is checked later.
std::optional<AddressParts> split(std::string_view text) {
    AddressParts parts;
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos) {
            return std::nullopt;
        }
        const std::string_view rest = text.substr(end + 1);
        if (!rest.empty() && rest.front() != ':') {
            return std::nullopt;
        }
        parts.family = Family::ipv6;
        parts.host = text.substr(1, end - 1);
        parts.has_port = !rest.empty();
        parts.port = parts.has_port ? rest.substr(1) : rest;
    } else {
        const std::ptrdiff_t colon_count = std::count(text.begin(), text.end(), ':');
        const std::size_t colon = text.find(':');
        parts.family = colon_count > 1 ? Family::ipv6 : Family::ipv4;
        parts.has_port = colon_count == 1;
        parts.host = parts.has_port ? text.substr(0, colon) : text;
        parts.port = parts.has_port ? text.substr(colon + 1) : std::string_view{};
    }
    const std::size_t percent = parts.host.find('%');
    if (parts.family == Family::ipv6 && percent != std::string_view::npos) {
        parts.has_scope = true;
        parts.scope = parts.host.substr(percent + 1);
        parts.host = parts.host.substr(0, percent);
    }
    return parts;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end) {
        return std::nullopt;
    }
    return value;
}

/// inet_pton() wants a terminating zero. A zero inside the text must not end it early.
bool parse_host(int family, std::string_view host, void* into) {
    std::array<char, INET6_ADDRSTRLEN> terminated{};
    if (host.size() >= terminated.size() || host.contains('\0')) {
        return false;
    }
    std::copy(host.begin(), host.end(), terminated.begin());
    return ::inet_pton(family, terminated.data(), into) == 1;
}

std::optional<std::uint32_t> parse_scope(std::string_view scope) {
    std::array<char, IF_NAMESIZE> name{};
    if (scope.size() < name.size() && !scope.contains('\0')) {
        std::copy(scope.begin(), scope.end(), name.begin());
        if (const unsigned index = ::if_nametoindex(name.data()); index != 0) {
            return index;
        }
    }
    return parse_number<std::uint32_t>(scope);
}

std::unexpected<Error> refuse(std::string_view text, const char* reason, const char* remedy) {
    return std::unexpected(Error(Errc::invalid_argument, "read address", text, 0, reason, remedy));
}

std::string scope_suffix(std::uint32_t scope_id) {
    if (scope_id == 0) {
        return {};
    }
    std::array<char, IF_NAMESIZE> name{};
    if (::if_indextoname(scope_id, name.data()) != nullptr) {
        return std::string("%") + name.data();
    }
    return "%" + std::to_string(scope_id);
}

}  // namespace

std::string_view to_string(Family family) noexcept {
    return family == Family::ipv4 ? "ipv4" : "ipv6";
}

std::string_view to_string(Protocol protocol) noexcept {
    return protocol == Protocol::udp ? "udp" : "tcp";
}

Address::Address() noexcept : storage_{.v6 = {}} { storage_.base.sa_family = AF_INET; }

Address Address::any(Family family, std::uint16_t port) noexcept {
    Address address;
    address.storage_.base.sa_family = family == Family::ipv4 ? AF_INET : AF_INET6;
    return address.with_port(port);
}

Address Address::loopback(Family family, std::uint16_t port) noexcept {
    Address address = any(family, port);
    if (family == Family::ipv4) {
        address.storage_.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        address.storage_.v6.sin6_addr = in6addr_loopback;
    }
    return address;
}

Result<Address> Address::parse(std::string_view text) {
    constexpr const char* kForms = "write it like 192.0.2.1:53, 2001:db8::1 or [2001:db8::1]:53";
    const std::optional<AddressParts> parts = split(text);
    if (!parts) {
        return refuse(text, "the brackets do not match", kForms);
    }
    Address address = any(parts->family);
    const bool is_v4 = parts->family == Family::ipv4;
    void* into = is_v4 ? static_cast<void*>(&address.storage_.v4.sin_addr)
                       : static_cast<void*>(&address.storage_.v6.sin6_addr);
    if (!parse_host(address.storage_.base.sa_family, parts->host, into)) {
        return refuse(text, "it is no numeric IPv4 or IPv6 address", kForms);
    }
    if (parts->has_scope) {
        const std::optional<std::uint32_t> scope_id = parse_scope(parts->scope);
        if (!scope_id) {
            return refuse(text, "this host has no such interface", "see 'ip link'");
        }
        address.storage_.v6.sin6_scope_id = *scope_id;
    }
    if (!parts->has_port) {
        return address;
    }
    const std::optional<std::uint16_t> port = parse_number<std::uint16_t>(parts->port);
    if (!port) {
        return refuse(text, "its port is no number from 0 to 65535", kForms);
    }
    return address.with_port(*port);
}

Result<Address> Address::from(const sockaddr* address, socklen_t size) {
    const std::size_t given_size = address == nullptr ? 0 : size;
    const bool has_family = given_size >= offsetof(sockaddr, sa_data);
    const int family = has_family ? address->sa_family : AF_UNSPEC;
    // The kernel takes an IPv6 address without its scope id (RFC 2133) as one with scope id 0.
    const bool is_whole = (family == AF_INET && given_size >= sizeof(sockaddr_in)) ||
                          (family == AF_INET6 && given_size >= kShortV6Size);
    if (!is_whole) {
        return std::unexpected(Error(Errc::invalid_argument, "read address", "sockaddr", 0,
                                     "it is no whole sockaddr_in or sockaddr_in6"));
    }
    Address copy;
    const std::size_t family_size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&copy.storage_, address, std::min(given_size, family_size));
    return copy;
}

bool Address::is_wildcard() const noexcept {
    if (family() == Family::ipv4) {
        return storage_.v4.sin_addr.s_addr == INADDR_ANY;
    }
    return IN6_IS_ADDR_UNSPECIFIED(&storage_.v6.sin6_addr) ||
           (is_v4_mapped() && unmapped().is_wildcard());
}

bool Address::is_loopback() const noexcept {
    const Address plain = unmapped();
    if (plain.family() == Family::ipv4) {
        return plain.bytes()[0] == IN_LOOPBACKNET;
    }
    return IN6_IS_ADDR_LOOPBACK(&plain.storage_.v6.sin6_addr);
}

bool Address::is_v4_mapped() const noexcept {
    return family() == Family::ipv6 && IN6_IS_ADDR_V4MAPPED(&storage_.v6.sin6_addr);
}

Address Address::unmapped() const noexcept {
    if (!is_v4_mapped()) {
        return *this;
    }
    Address plain = any(Family::ipv4, port());
    std::memcpy(&plain.storage_.v4.sin_addr, &storage_.v6.sin6_addr.s6_addr[12], sizeof(in_addr));
    return plain;
}

std::array<std::uint8_t, 16> Address::bytes() const noexcept {
    std::array<std::uint8_t, 16> bytes{};
    if (family() == Family::ipv4) {
        std::memcpy(bytes.data(), &storage_.v4.sin_addr, sizeof(in_addr));
    } else {
        std::memcpy(bytes.data(), &storage_.v6.sin6_addr, sizeof(in6_addr));
    }
    return bytes;
}

std::uint32_t Address::scope_id() const noexcept {
    return family() == Family::ipv6 ? storage_.v6.sin6_scope_id : 0;
}

std::string Address::to_string() const {
    std::array<char, INET6_ADDRSTRLEN> host{};
    ::inet_ntop(storage_.base.sa_family, bytes().data(), host.data(), host.size());
    std::string text = host.data() + scope_suffix(scope_id());
    if (port() == 0) {
        return text;
    }
    const std::string number = std::to_string(port());
    return family() == Family::ipv4 ? text + ":" + number : "[" + text + "]:" + number;
}

bool operator==(const Address& a, const Address& b) noexcept {
    return a.family() == b.family() && a.port() == b.port() && a.bytes() == b.bytes() &&
           a.scope_id() == b.scope_id();
}

}  // namespace berth
