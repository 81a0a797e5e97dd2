// SPDX-License-Identifier: Apache-2.0
#include "src/ports/sock_diag.h"

#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstring>

namespace berth::internal {
namespace {

Address v4_address(const std::uint32_t* network_order, std::uint16_t port) noexcept {
    sockaddr_in raw{};
    raw.sin_family = AF_INET;
    raw.sin_port = port;
    raw.sin_addr.s_addr = *network_order;
    const sockaddr* generic = reinterpret_cast<const sockaddr*>(&raw);
    return *Address::from(generic, sizeof(raw));
}

Address v6_address(const std::uint32_t* network_order, std::uint16_t port,
                   std::uint32_t interface_index) noexcept {
    sockaddr_in6 raw{};
    raw.sin6_family = AF_INET6;
    raw.sin6_port = port;
    std::memcpy(&raw.sin6_addr, network_order, sizeof(raw.sin6_addr));
    if (IN6_IS_ADDR_LINKLOCAL(&raw.sin6_addr)) {
        raw.sin6_scope_id = interface_index;
    }
    const sockaddr* generic = reinterpret_cast<const sockaddr*>(&raw);
    return Address::from(generic, sizeof(raw))->unmapped();
}

// The kernel adds INET_DIAG_SKV6ONLY in the states LISTEN and CLOSE, which are those that a socket
// on the wildcard address can be in. Without it, the wider answer is the safe one.
bool is_v6_only(const nlmsghdr& message) noexcept {
    static_assert(sizeof(inet_diag_msg) % MNL_ALIGNTO == 0);
    const auto* at = static_cast<const std::byte*>(mnl_nlmsg_get_payload(&message));
    const auto* end = at + mnl_nlmsg_get_payload_len(&message);
    at += sizeof(inet_diag_msg);
    while (at < end) {
        const auto* attribute = reinterpret_cast<const nlattr*>(at);
        if (!mnl_attr_ok(attribute, static_cast<int>(end - at))) {
            return false;
        }
        if (mnl_attr_get_type(attribute) == INET_DIAG_SKV6ONLY &&
            mnl_attr_get_payload_len(attribute) >= sizeof(std::uint8_t)) {
            return mnl_attr_get_u8(attribute) != 0;
        }
        at = reinterpret_cast<const std::byte*>(mnl_attr_next(attribute));
    }
    return false;
}

}  // namespace

std::optional<KernelSocket> parse_diag_row(const nlmsghdr& message) noexcept {
    inet_diag_msg row;
    if (message.nlmsg_len < NLMSG_HDRLEN + sizeof(row)) {
        return std::nullopt;
    }
    std::memcpy(&row, mnl_nlmsg_get_payload(&message), sizeof(row));
    const inet_diag_sockid& id = row.id;
    KernelSocket socket{};
    socket.tcp_state = row.idiag_state;
    if (row.idiag_family == AF_INET) {
        socket.local = v4_address(id.idiag_src, id.idiag_sport);
        socket.remote = v4_address(id.idiag_dst, id.idiag_dport);
    } else if (row.idiag_family == AF_INET6) {
        socket.local = v6_address(id.idiag_src, id.idiag_sport, id.idiag_if);
        socket.remote = v6_address(id.idiag_dst, id.idiag_dport, id.idiag_if);
        socket.is_dual_stack = socket.local.family() == Family::ipv6 &&
                               socket.local.is_wildcard() && !is_v6_only(message);
    } else {
        return std::nullopt;
    }
    return socket;
}

}  // namespace berth::internal
