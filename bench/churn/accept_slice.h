// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/job_comparison.h"

namespace berth::bench {

/// A program's echo server accepts connections that end at once.
/// ChildReport::values: accepted.
Result<JobSlice> run_accept_slice(const Program& program, unsigned connection_count,
                                  const Environment& environment, bool counts);

}  // namespace berth::bench
