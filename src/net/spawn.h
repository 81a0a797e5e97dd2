// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/process.h>

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::internal {

/// Starts a program by posix_spawn(); see ChildProcess::spawn().
Result<pid_t> spawn_program(const std::vector<std::string>& arguments, const SpawnOptions& options);

}  // namespace berth::internal
