// SPDX-License-Identifier: Apache-2.0
#include "src/base/system_calls.h"

namespace berth::internal {

constinit const SystemCalls kKernelCalls = {
    .socket = ::socket,
    .bind = ::bind,
    .connect = ::connect,
    .getsockname = ::getsockname,
    .getsockopt = ::getsockopt,
    .setsockopt = ::setsockopt,
    .sendto = ::sendto,
    .recv = ::recv,
};

const SystemCalls& kernel_calls() noexcept { return kKernelCalls; }

}  // namespace berth::internal
