// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernel knows: the sockets of this network namespace, read by sock_diag
// (NETLINK_SOCK_DIAG, kernel: net/ipv4/inet_diag.c, udp_diag.c). TCP sockets that are bound but
// neither listening nor connected appear only with state bit 13 (TCP_BOUND_INACTIVE, kernel
// >= 6.8).

#include <berth/address.h>
#include <berth/error.h>

#include <cstdint>
#include <vector>

namespace berth::internal {

struct KernelSocket {
    Address local;
    Address remote;          // port 0: not connected
    bool is_dual_stack;      // an IPv6 wildcard socket without IPV6_V6ONLY
    std::uint8_t tcp_state;  // enum in netinet/tcp.h; 13 = bound only
};

struct KernelSockets {
    std::vector<KernelSocket> sockets;  // those with a local port; both families
    bool saw_bound_only = false;        // always true for UDP
    bool was_interrupted = false;       // NLM_F_DUMP_INTR in every one of the three attempts
};

/// All sockets of `protocol`. One that lives throughout the call can be missing when sockets beside
/// it close meanwhile: the list proves that a port is held, and only suggests that it is free.
/// **Errors:** permission_denied, unsupported (no sock_diag in this kernel), descriptors_exhausted,
/// out_of_memory, system. **Cost:** 0.5 to 1 microsecond per socket.
Result<KernelSockets> read_kernel_sockets(Protocol protocol);

/// The TCP sockets connected to `remote`, TIME_WAIT included.
Result<KernelSockets> read_kernel_connections(const Address& remote);

}  // namespace berth::internal
