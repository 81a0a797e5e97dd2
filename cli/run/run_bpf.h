// SPDX-License-Identifier: Apache-2.0
#pragma once

// `berth run --bpf`: the program in a cgroup of its own, with programs in the kernel that choose
// its ports. Any binary, static ones and Go too; needs root.

#include "cli/run/run_request.h"

#include <ostream>
#include <string>

namespace berth::cli {

/// Returns the exit status; ends this process by a signal when the program ended by one.
int run_under_bpf(const std::string& path, const RunRequest& request, std::ostream& err);

}  // namespace berth::cli
