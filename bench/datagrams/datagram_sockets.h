// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/programs/program.h"

#include <berth/descriptor.h>
#include <berth/error.h>

namespace berth::bench {

/// Two UDP sockets on loopback that know only each other; non-blocking, with large buffers, and set
/// up for segmentation offload where the mode asks for it.
struct DatagramSockets {
    Descriptor sender;
    Descriptor receiver;
};

/// **Errors:** unsupported, when the kernel has no UDP_SEGMENT (4.18) or UDP_GRO (5.0).
Result<DatagramSockets> open_datagram_sockets(DatagramMode mode, std::size_t datagram_size);

}  // namespace berth::bench
