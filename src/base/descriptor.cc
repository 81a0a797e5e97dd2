// SPDX-License-Identifier: Apache-2.0
#include <berth/descriptor.h>

#include "src/base/system_calls.h"

#include <cerrno>

#include <unistd.h>

namespace berth {

void Descriptor::reset(int fd) noexcept {
    const int previous = std::exchange(fd_, fd);
    if (previous < 0 || previous == fd) {
        return;
    }
    // A destructor must not disturb the errno that its caller is about to read. EINTR is no reason
    // to try again: on Linux the descriptor is gone already, and its number may be somebody else's.
    const int saved_errno = errno;
    internal::calls().close(previous);
    errno = saved_errno;
}

}  // namespace berth
