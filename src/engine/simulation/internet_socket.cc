// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/internet_socket.h"

#include "src/base/kernel_constants.h"
#include "src/engine/simulation/kernel.h"

#include <algorithm>
#include <cstring>

namespace berth::internal::simulated {
namespace {

bool is_unspecified_wildcard(const sockaddr* from, socklen_t size) noexcept {
    sockaddr_in copy{};
    if (size < sizeof(copy)) {
        return false;
    }
    std::memcpy(&copy, from, sizeof(copy));
    return copy.sin_family == AF_UNSPEC && copy.sin_addr.s_addr == htonl(INADDR_ANY);
}

}  // namespace

InternetSocket::InternetSocket(Kernel& kernel, Kind kind)
    : Socket(kernel, kind),
      local_(Address::any(kind.domain == AF_INET ? Family::ipv4 : Family::ipv6)),
      is_v6_only_(kernel.options.bind_v6_only) {
    claim_.owner = this;
    update_claim();
}

std::optional<SocketName> InternetSocket::peer_name() const {
    if (remote_.port() == 0 || is_unconnected()) {
        return std::nullopt;
    }
    return name_of(remote_, family());
}

int InternetSocket::bind(const sockaddr* address, socklen_t size) {
    Address asked;
    const int unreadable = read_bind_address(address, size, asked);
    // IPv4 looks at the address first, IPv6 at the socket.
    if (unreadable == -EADDRNOTAVAIL && family() == Family::ipv4) {
        return unreadable;
    }
    if (unreadable == -EINVAL || unreadable == -EAFNOSUPPORT) {
        return unreadable;
    }
    if (!is_unconnected() || has_port()) {
        return -EINVAL;
    }
    if (unreadable != 0) {
        return unreadable;
    }
    set_local_host(asked);
    if (asked.port() != 0 || !binds_without_port_) {
        if (const int error = asked.port() != 0 ? take_port(asked.port()) : choose_port();
            error != 0) {
            set_local_host(Address::any(family()));
            return error;
        }
    }
    is_host_named_ = !asked.is_wildcard();
    is_port_named_ = asked.port() != 0;
    remote_ = Address();
    local_ = local_.with_port(claimed_port_);
    return 0;
}

int InternetSocket::read_bind_address(const sockaddr* from, socklen_t size,
                                      Address& address) const {
    if (family() == Family::ipv4 && is_unspecified_wildcard(from, size)) {
        sockaddr_in copy;
        std::memcpy(&copy, from, sizeof(copy));
        address = Address::any(Family::ipv4, ntohs(copy.sin_port));
        return 0;
    }
    if (const int error = read_address(family(), from, size, address); error != 0) {
        return error;
    }
    if (address.is_v4_mapped() && is_v6_only_) {
        return -EINVAL;
    }
    address = address.unmapped();
    return kernel_.routes.is_own(address) ? 0 : -EADDRNOTAVAIL;
}

int InternetSocket::read_destination(const sockaddr* from, socklen_t size, Address& address) const {
    if (const int error = read_address(family(), from, size, address); error != 0) {
        return error;
    }
    const bool is_mapped = address.is_v4_mapped();
    address = destination_of(address);
    const bool has_other_family = !local_.is_wildcard() && local_.family() != address.family();
    if ((is_mapped && is_v6_only_) || has_other_family) {
        return -ENETUNREACH;
    }
    return kernel_.routes.to(address) == Route::no_network ? -ENETUNREACH : 0;
}

PortRegistry& InternetSocket::registry() const noexcept {
    return kind_.protocol == IPPROTO_TCP ? kernel_.tcp_ports : kernel_.udp_ports;
}

int InternetSocket::take_port(std::uint16_t port) {
    if (registry().has_conflict(port, claim_, false)) {
        return -EADDRINUSE;
    }
    claim_port(port, false);
    return 0;
}

int InternetSocket::choose_port() {
    const std::uint32_t count = range_size();
    const auto start = static_cast<std::uint32_t>(kernel_.random.below(std::max(count, 1U)));
    for (std::uint32_t index = 0; index < count; ++index) {
        const std::uint16_t port = range_port(start, index);
        if (!registry().has_conflict(port, claim_, true)) {
            claim_port(port, false);
            return 0;
        }
    }
    return -EADDRINUSE;
}

std::uint16_t InternetSocket::range_port(std::uint32_t start, std::uint32_t index) const noexcept {
    const PortRange range = port_range();
    return static_cast<std::uint16_t>(range.first + (start + index) % range.size());
}

PortRange InternetSocket::port_range() const noexcept {
    // As the kernel does it: a bound outside the namespace's range is no bound.
    PortRange range = kernel_.options.port_range;
    const PortRange whole = range;
    const auto first = static_cast<std::uint16_t>(own_range_ & 0xffff);
    const auto last = static_cast<std::uint16_t>(own_range_ >> 16);
    if (whole.contains(first)) range.first = first;
    if (whole.contains(last)) range.last = last;
    return range;
}

void InternetSocket::claim_port(std::uint16_t port, bool is_by_connect) {
    claim_.is_by_connect = is_by_connect;
    claimed_port_ = port;
    local_ = local_.with_port(port);
    registry().add(port, claim_);
}

void InternetSocket::release_port() {
    if (has_port()) {
        registry().remove(claimed_port_, claim_);
        claimed_port_ = 0;
    }
}

void InternetSocket::set_local_host(const Address& host) {
    local_ = host.with_port(local_.port());
    update_claim();
}

void InternetSocket::forget_chosen_name() {
    remote_ = Address();
    if (!is_host_named_) {
        set_local_host(Address::any(family()));
    }
}

void InternetSocket::copy_name_options(const InternetSocket& from) {
    copy_options(from);
    is_v6_only_ = from.is_v6_only_;
    binds_without_port_ = from.binds_without_port_;
    own_range_ = from.own_range_;
    claim_.may_reuse_address = from.claim_.may_reuse_address;
    claim_.may_reuse_port = from.claim_.may_reuse_port;
}

void InternetSocket::update_claim() {
    claim_.host = local_.with_port(0);
    const bool is_any_ipv6 = local_.family() == Family::ipv6;
    claim_.covers_ipv6 = is_any_ipv6;
    claim_.covers_ipv4 = !is_any_ipv6 || !is_v6_only_;
}

std::string InternetSocket::describe_names() const {
    std::string text = kind_.protocol == IPPROTO_TCP ? "tcp " : "udp ";
    text += local_.to_string();
    if (remote_.port() != 0) {
        text += " to " + remote_.to_string();
    }
    return text;
}

std::optional<int> InternetSocket::get_own_option(int level, int name) {
    if (level == SOL_SOCKET && name == SO_REUSEADDR) {
        return static_cast<int>(claim_.may_reuse_address);
    }
    if (level == SOL_SOCKET && name == SO_REUSEPORT) {
        return static_cast<int>(claim_.may_reuse_port);
    }
    if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && family() == Family::ipv6) {
        return static_cast<int>(is_v6_only_);
    }
    if (level == IPPROTO_IP && name == IP_BIND_ADDRESS_NO_PORT) {
        return static_cast<int>(binds_without_port_);
    }
    if (level == IPPROTO_IP && name == IP_LOCAL_PORT_RANGE) {
        return static_cast<int>(own_range_);
    }
    return std::nullopt;
}

std::optional<int> InternetSocket::set_own_option(int level, int name, int value) {
    if (level == SOL_SOCKET && name == SO_REUSEADDR) {
        claim_.may_reuse_address = value != 0;
    } else if (level == SOL_SOCKET && name == SO_REUSEPORT) {
        claim_.may_reuse_port = value != 0;
    } else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && family() == Family::ipv6) {
        if (has_port()) {
            return -EINVAL;
        }
        is_v6_only_ = value != 0;
        update_claim();
    } else if (level == IPPROTO_IP && name == IP_BIND_ADDRESS_NO_PORT) {
        binds_without_port_ = value != 0;
    } else if (level == IPPROTO_IP && name == IP_LOCAL_PORT_RANGE) {
        const auto range = static_cast<std::uint32_t>(value);
        if ((range & 0xffff) != 0 && range >> 16 != 0 && range >> 16 < (range & 0xffff)) {
            return -EINVAL;
        }
        own_range_ = range;
    } else {
        return std::nullopt;
    }
    return 0;
}

}  // namespace berth::internal::simulated
