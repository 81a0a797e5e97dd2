// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

namespace berth::internal {

/// A call's answer as a result: it, or -errno. An interrupted call is made again: for those that do
/// not wait.
template <class Call>
int result_of(Call call) noexcept {
    for (;;) {
        const auto answer = call();
        if (answer >= 0) {
            return static_cast<int>(answer);
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

}  // namespace berth::internal
