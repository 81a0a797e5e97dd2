// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace berth::cli {

/// The status of every verb, except that `run` passes its program's on, whatever number that is.
enum class ExitCode : std::uint8_t {
    ok = 0,
    failed = 1,
    usage = 2,        ///< A wrong verb, option or value.
    unsupported = 3,  ///< A kernel feature or a privilege is missing.
    partial = 4       ///< There is a result, but not all of it.
};

}  // namespace berth::cli
