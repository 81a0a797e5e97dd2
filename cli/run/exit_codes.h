// SPDX-License-Identifier: Apache-2.0
#pragma once

// The status of `berth run` where there is none of the program's: as of env(1) and others that run
// programs.

#include <cerrno>

namespace berth::cli {

constexpr int kOwnFailure = 125;
constexpr int kNotRunnable = 126;
constexpr int kNotFound = 127;

/// When exec() has failed.
constexpr int exit_code_of_start(int system_errno) noexcept {
    return system_errno == ENOENT || system_errno == ENOTDIR ? kNotFound : kNotRunnable;
}

}  // namespace berth::cli
