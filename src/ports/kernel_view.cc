// SPDX-License-Identifier: Apache-2.0
#include "src/ports/kernel_view.h"

#include "src/ports/sock_diag.h"

#include <netinet/tcp.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

namespace berth::internal {
namespace {

constexpr int kMaxAttempts = 3;
constexpr std::uint32_t kEveryTcpState = 0xfff;
constexpr std::uint32_t kEveryUdpState = 0xffffffff;

constexpr std::uint32_t state_bit(unsigned state) noexcept { return std::uint32_t{1} << state; }

// Every attempt begins anew: a list that was cut short proves nothing.
Result<void> read_family(const DiagQuery& query, KernelSockets& into) {
    const auto count_before = static_cast<std::ptrdiff_t>(into.sockets.size());
    for (int attempt = 1;; ++attempt) {
        const Result<DumpEnd> end = dump_sockets(query, into.sockets);
        if (end && *end == DumpEnd::complete) {
            return {};
        }
        if (end && attempt == kMaxAttempts) {
            into.was_interrupted = true;
            return {};
        }
        const int failure = end ? 0 : end.error().system_errno();
        if (failure != 0 && (failure != ENOBUFS || attempt == kMaxAttempts)) {
            return std::unexpected(end.error());
        }
        into.sockets.erase(into.sockets.begin() + count_before, into.sockets.end());
    }
}

// IPv4 must be there; a kernel that knows no IPv6 sockets has none.
Result<void> read_families(DiagQuery query, KernelSockets& into) {
    query.family = Family::ipv4;
    BERTH_TRY(read_family(query, into));
    query.family = Family::ipv6;
    const Result<void> v6 = read_family(query, into);
    if (!v6 && v6.error().system_errno() != ENOENT) {
        return v6;
    }
    return {};
}

// Older kernels ignore the state bit in silence. A probe (binding a socket and looking for it)
// would need a port exactly when none may be left, so the release decides; a kernel that has the
// feature but not the number is recognised by the first row. A wrong "no" only means that ports of
// sockets which are merely bound are not taken back from this list.
bool lists_bound_only(const std::vector<KernelSocket>& sockets) {
    utsname name{};
    return (::uname(&name) == 0 && release_lists_bound_only(name.release)) ||
           std::ranges::any_of(sockets, [](const KernelSocket& socket) {
               return socket.tcp_state == kTcpBoundOnly;
           });
}

// A scope counts only where both name one: the kernel's rows have none for global addresses.
bool is_same_remote(const Address& a, const Address& b) noexcept {
    const bool is_same_scope =
        a.scope_id() == b.scope_id() || a.scope_id() == 0 || b.scope_id() == 0;
    return a.family() == b.family() && a.port() == b.port() && a.bytes() == b.bytes() &&
           is_same_scope;
}

}  // namespace

bool release_lists_bound_only(std::string_view release) noexcept {
    const char* end = release.data() + release.size();
    int major = 0;
    int minor = 0;
    const char* dot = std::from_chars(release.data(), end, major).ptr;
    if (dot != end && *dot == '.') {
        std::from_chars(dot + 1, end, minor);
    }
    return std::pair(major, minor) >= std::pair(6, 8);
}

Result<KernelSockets> read_kernel_sockets(Protocol protocol) {
    const bool is_udp = protocol == Protocol::udp;
    KernelSockets result;
    const std::uint32_t states =
        is_udp ? kEveryUdpState : kEveryTcpState | state_bit(kTcpBoundOnly);
    BERTH_TRY(read_families({.protocol = protocol, .states = states}, result));
    result.saw_bound_only = is_udp || lists_bound_only(result.sockets);
    return result;
}

Result<KernelSockets> read_kernel_connections(const Address& remote) {
    if (remote.port() == 0) {
        return std::unexpected(Error(Errc::invalid_argument, "read kernel sockets",
                                     remote.to_string(), 0, "a destination needs a port"));
    }
    const Address wanted = remote.unmapped();
    const DiagQuery query{.protocol = Protocol::tcp,
                          .family = Family::ipv6,
                          .states = kEveryTcpState & ~state_bit(TCP_LISTEN) & ~state_bit(TCP_CLOSE),
                          .remote_port = wanted.port()};
    KernelSockets result;
    // An IPv6 socket can be connected to an IPv4 destination, not the other way round.
    if (wanted.family() == Family::ipv4) {
        BERTH_TRY(read_families(query, result));
    } else {
        BERTH_TRY(read_family(query, result));
    }
    std::erase_if(result.sockets, [&wanted](const KernelSocket& socket) {
        return !is_same_remote(socket.remote, wanted);
    });
    return result;
}

}  // namespace berth::internal
