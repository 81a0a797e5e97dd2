// SPDX-License-Identifier: Apache-2.0
#include "src/engine/wakeup.h"

#include <sys/eventfd.h>

#include <unistd.h>

#include <cerrno>

namespace berth::internal {

Result<Wakeup> Wakeup::open() {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return std::unexpected(Error::from_errno(errno, "open", "eventfd"));
    }
    return Wakeup(Descriptor(fd));
}

void Wakeup::signal() noexcept {
    if (is_signalled_.load() || is_signalled_.exchange(true)) {
        return;
    }
    signal_count_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t one = 1;
    // EAGAIN would mean 2^64 - 2 signals that nobody has read; the eventfd is readable then.
    [[maybe_unused]] const ssize_t written = ::write(fd(), &one, sizeof one);
}

void Wakeup::acknowledge(bool must_be_read) noexcept {
    if (must_be_read) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t bytes = ::read(fd(), &count, sizeof count);
    }
    is_signalled_.store(false);
}

}  // namespace berth::internal
