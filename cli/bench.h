// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/bench_request.h"
#include "cli/exit_code.h"

#include <ostream>

namespace berth::cli {

/// `berth bench`: moves into a namespace, runs one workload or the headline of all, and writes the
/// result.
ExitCode run_bench(const BenchRequest& request, std::ostream& out, std::ostream& err);

}  // namespace berth::cli
