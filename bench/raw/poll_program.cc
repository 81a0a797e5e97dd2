// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/poll_poller.h"
#include "bench/raw/raw_programs.h"

namespace berth::bench::raw {

Program poll_program() { return readiness_program<PollPoller<IndexedArray>>("poll"); }

}  // namespace berth::bench::raw
