// SPDX-License-Identifier: Apache-2.0
// What a socket is and what was set on it is remembered here, so that bind() and its like need not
// ask the kernel, which would cost as much again as the bind() itself.
#include "src/base/kernel_constants.h"
#include "src/interpose/preload/holding.h"
#include "src/interpose/preload/interposed.h"
#include "src/interpose/preload/next_calls.h"

#include <cerrno>

namespace berth::internal {
namespace {

// Of a plain UDP or TCP socket; nothing for any other.
Held fresh_socket(int domain, int type, int protocol) noexcept {
    constexpr int kTypeMask = 0xf;  // the rest are flags
    Held held;
    const int kind = type & kTypeMask;
    const bool is_udp = kind == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
    const bool is_tcp = kind == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP);
    if ((domain == AF_INET || domain == AF_INET6) && (is_udp || is_tcp)) {
        held.kind = HeldKind::fresh;
        held.protocol = is_udp ? Protocol::udp : Protocol::tcp;
        held.family = domain == AF_INET ? Family::ipv4 : Family::ipv6;
    }
    return held;
}

// The number is new: whatever is remembered of it was closed behind our back.
void remember(int fd, const Held& held) noexcept {
    if (guest.held.get(fd).has_port_of_ours() && !is_own_memory()) {
        return;  // a child of vfork(), and its parent's note
    }
    const Held before =
        held.kind == HeldKind::nothing ? guest.held.take(fd) : guest.held.put(fd, held);
    if (before.has_port_of_ours()) {
        const KeptErrno kept;
        release(before);
        kept.answer(0);
    }
}

// What the option makes necessary to ask; nothing for most of them.
SocketFlags flag_of(int level, int name) noexcept {
    if (level == SOL_SOCKET && (name == SO_REUSEADDR || name == SO_REUSEPORT)) {
        return kMayReuse;
    }
    if (level == IPPROTO_IP && name == IP_BIND_ADDRESS_NO_PORT) {
        return kMayWaitForPort;
    }
    if (level == IPPROTO_IP && name == IP_LOCAL_PORT_RANGE) {
        return kMayHaveRange;
    }
    return level == IPPROTO_IPV6 && name == IPV6_V6ONLY ? kMayBeV6Only : SocketFlags{0};
}

}  // namespace

BERTH_INTERPOSED int socket(int domain, int type, int protocol) noexcept {
    const int fd = next_calls.socket(domain, type, protocol);
    if (fd >= 0 && guest.covers(fd)) {
        remember(fd, fresh_socket(domain, type, protocol));
    }
    return fd;
}

BERTH_INTERPOSED int setsockopt(int fd, int level, int name, const void* value,
                                socklen_t size) noexcept {
    if (const SocketFlags flag = flag_of(level, name); flag != 0 && guest.covers(fd)) {
        guest.held.add_flags(fd, flag);
    }
    return next_calls.setsockopt(fd, level, name, value, size);
}

}  // namespace berth::internal
