// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/job_comparison.h"

namespace berth::bench {

struct DatagramScene {
    DatagramMode mode = DatagramMode::single;
    bool is_sender = false;  // the program that is measured
    std::size_t datagram_size = 64;
    std::uint64_t datagram_count = 0;  // to send
};

/// A program sends to, or receives from, the raw program that costs least. The unit is a datagram
/// that was received, or sent. ChildReport::values: sent, received.
/// **Errors:** unsupported, when the program or the kernel does not have the mode; system when what
/// was received was not what was sent. Datagrams that are lost are no error.
Result<JobSlice> run_datagram_slice(const Program& program, const DatagramScene& scene,
                                    bool counts);

}  // namespace berth::bench
