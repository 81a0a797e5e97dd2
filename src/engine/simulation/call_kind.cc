// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/call_kind.h"

namespace berth::internal {

std::string_view to_string(CallKind kind) noexcept {
    static constexpr std::array<std::string_view, kCallKindCount> kNames = {
        "socket",      "bind",      "connect",      "getsockname", "getsockopt",   "setsockopt",
        "sendto",      "recv",      "listen",       "accept4",     "shutdown",     "close",
        "getpeername", "send",      "recvmsg",      "sendmsg",     "recvmmsg",     "sendmmsg",
        "preadv2",     "pwritev2",  "splice",       "sendfile",    "ioctl",        "ppoll",
        "pselect",     "epoll_ctl", "epoll_pwait2", "epoll_pwait", "clock_gettime"};
    return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace berth::internal
