// SPDX-License-Identifier: Apache-2.0
#pragma once

// Socket options that older C libraries do not name, with the values of include/uapi/linux/in.h and
// asm-generic/socket.h.

#include <netinet/in.h>
#include <sys/socket.h>

/// Since kernel: 4.2.
#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/// A u32, first port in the low half and last port in the high half. Since kernel: 6.3.
#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif

/// A u64 that names the network namespace of a socket. Since kernel: 5.14.
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
