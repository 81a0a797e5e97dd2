// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace berth::internal::simulated {
namespace {

struct InertOption {
    int level;
    int name;
    int initial;
    bool is_boolean;  // the kernel keeps any number but 0 as 1
};

constexpr InertOption kInertOptions[] = {
    {SOL_SOCKET, SO_KEEPALIVE, 0, true},
    {SOL_SOCKET, SO_BROADCAST, 0, true},
    {SOL_SOCKET, SO_OOBINLINE, 0, true},
    {SOL_SOCKET, SO_DONTROUTE, 0, true},
    {SOL_SOCKET, SO_NO_CHECK, 0, true},
    {SOL_SOCKET, SO_TIMESTAMP, 0, true},
    {SOL_SOCKET, SO_TIMESTAMPNS, 0, true},
    {SOL_SOCKET, SO_PASSCRED, 0, true},
    {SOL_SOCKET, SO_RXQ_OVFL, 0, true},
    {SOL_SOCKET, SO_ZEROCOPY, 0, true},
    {SOL_SOCKET, SO_PRIORITY, 0, false},
    {SOL_SOCKET, SO_MARK, 0, false},
    {SOL_SOCKET, SO_INCOMING_CPU, 0, false},
    {SOL_SOCKET, SO_BUSY_POLL, 0, false},
    {SOL_SOCKET, SO_RCVLOWAT, 1, false},
    {SOL_SOCKET, SO_SNDLOWAT, 1, false},
    {IPPROTO_IP, IP_TOS, 0, false},
    {IPPROTO_IP, IP_TTL, 64, false},
    {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT, false},
    {IPPROTO_IP, IP_RECVERR, 0, true},
    {IPPROTO_IP, IP_RECVTOS, 0, true},
    {IPPROTO_IP, IP_RECVTTL, 0, true},
    {IPPROTO_IP, IP_FREEBIND, 0, true},
    {IPPROTO_IP, IP_TRANSPARENT, 0, true},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64, false},
    {IPPROTO_IPV6, IPV6_TCLASS, 0, false},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT, false},
    {IPPROTO_IPV6, IPV6_RECVERR, 0, true},
    {IPPROTO_IPV6, IPV6_RECVTCLASS, 0, true},
    {IPPROTO_TCP, TCP_NODELAY, 0, true},
    {IPPROTO_TCP, TCP_CORK, 0, true},
    {IPPROTO_TCP, TCP_QUICKACK, 1, true},
    {IPPROTO_TCP, TCP_KEEPIDLE, 7200, false},
    {IPPROTO_TCP, TCP_KEEPINTVL, 75, false},
    {IPPROTO_TCP, TCP_KEEPCNT, 9, false},
    {IPPROTO_TCP, TCP_SYNCNT, 6, false},
    {IPPROTO_TCP, TCP_LINGER2, 60, false},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, 0, false},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, 0, false},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0, false},
    {IPPROTO_TCP, TCP_FASTOPEN, 0, false},
    {IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0, true},
};

const InertOption* find_option(int level, int name) {
    const auto* found = std::ranges::find_if(kInertOptions, [&](const InertOption& option) {
        return option.level == level && option.name == name;
    });
    return found == std::end(kInertOptions) ? nullptr : found;
}

}  // namespace

std::optional<int> InertOptions::get(int level, int name) const {
    const InertOption* option = find_option(level, name);
    if (option == nullptr) {
        return std::nullopt;
    }
    const auto set = values_.find({level, name});
    return set == values_.end() ? option->initial : set->second;
}

bool InertOptions::set(int level, int name, int value) {
    const InertOption* option = find_option(level, name);
    if (option == nullptr) {
        return false;
    }
    values_[{level, name}] = option->is_boolean ? static_cast<int>(value != 0) : value;
    return true;
}

}  // namespace berth::internal::simulated
