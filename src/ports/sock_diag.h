// SPDX-License-Identifier: Apache-2.0
#pragma once

// One sock_diag dump: a request, then datagrams of up to 32 KiB full of rows until NLMSG_DONE. The
// kernel makes each datagram while recv() waits for it, so nothing is lost to a full queue and no
// answer takes long; whatever ends otherwise is an error here, never half a list.
//
// Limits: 4,194,304 messages a dump, 2 s without one.
// Source: net/core/sock_diag.c, net/ipv4/inet_diag.c, net/netlink/af_netlink.c.

#include "src/ports/kernel_view.h"

#include <linux/netlink.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::internal {

/// TCP_BOUND_INACTIVE, which <netinet/tcp.h> does not name. **Since kernel:** 6.8.
constexpr std::uint8_t kTcpBoundOnly = 13;

/// Whether a kernel of this release ("6.1.0-13-amd64") has TCP_BOUND_INACTIVE.
bool release_lists_bound_only(std::string_view release) noexcept;

struct DiagQuery {
    Protocol protocol = Protocol::udp;
    Family family = Family::ipv4;
    std::uint32_t states = 0;       // bit n asks for sockets in state n
    std::uint16_t remote_port = 0;  // only sockets connected to this port; 0: all
};

enum class DumpEnd : std::uint8_t {
    complete,
    changed_meanwhile  // NLM_F_DUMP_INTR: rows may be missing or doubled
};

/// Asks once and appends the sockets that have a local port to `found`, which holds some of them
/// when the dump fails.
/// **Errors:** as read_kernel_sockets(); out_of_memory with ENOBUFS is worth another attempt.
Result<DumpEnd> dump_sockets(const DiagQuery& query, std::vector<KernelSocket>& found);

/// The socket that one SOCK_DIAG_BY_FAMILY message describes, whose nlmsg_len has been checked.
/// Empty when it is too short or of another family.
std::optional<KernelSocket> parse_diag_row(const nlmsghdr& message) noexcept;

}  // namespace berth::internal
