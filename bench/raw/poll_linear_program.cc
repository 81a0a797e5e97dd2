// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/poll_poller.h"
#include "bench/raw/raw_programs.h"

namespace berth::bench::raw {

Program poll_linear_program() { return readiness_program<PollPoller<LinearArray>>("poll-linear"); }

}  // namespace berth::bench::raw
