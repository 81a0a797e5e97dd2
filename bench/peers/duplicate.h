// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/raw/sockets.h"

#include <berth/descriptor.h>

#include <fcntl.h>

namespace berth::bench {

/// For a library that closes what it is given, where the job keeps its descriptor.
inline Result<Descriptor> duplicate(int fd) {
    Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.is_open()) {
        return raw::last_error("duplicate descriptor");
    }
    return copy;
}

}  // namespace berth::bench
