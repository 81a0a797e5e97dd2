// SPDX-License-Identifier: Apache-2.0
#pragma once

// Socket options that glibc 2.36 does not name, with the values of include/uapi/linux/in.h.

#include <netinet/in.h>

/// Since kernel: 4.2.
#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/// A u32, first port in the low half and last port in the high half. Since kernel: 6.3.
#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif
