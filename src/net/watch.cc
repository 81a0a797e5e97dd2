// SPDX-License-Identifier: Apache-2.0
#include <berth/watch.h>

#include "src/loop/loop_state.h"

#include <fcntl.h>

#include <cerrno>

namespace berth {

Result<Watch> Watch::open(Loop& loop, int fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
        return std::unexpected(Error::from_errno(errno, "watch", "descriptor"));
    }
    internal::LoopState& state = loop.state();
    const internal::SlotHandle slot = BERTH_TRY(state.attach(fd, internal::DescriptorKind::other));
    return Watch(&state, slot, fd);
}

void Watch::close() noexcept {
    if (slot_.is_valid()) {
        loop_->detach(std::exchange(slot_, {}), internal::Detach::keep);
        fd_ = -1;
    }
}

}  // namespace berth
