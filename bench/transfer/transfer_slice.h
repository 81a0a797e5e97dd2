// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/job_comparison.h"

namespace berth::bench {

/// One transfer to a program, over so many connections, with a server in a process of its own.
/// **Errors:** what the program answers; system when it did not get what was sent.
Result<JobSlice> run_transfer_slice(const Program& program, unsigned connections,
                                    const Environment& environment, bool counts);

/// What any client must do: receives one stream after the other with blocking calls, and knows of
/// no loop. What a program's CPU time is beyond this one's is its loop's.
const Program& blocking_reader();

}  // namespace berth::bench
