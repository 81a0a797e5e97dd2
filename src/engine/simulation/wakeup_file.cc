// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/wakeup_file.h"

#include <span>
#include <utility>

namespace berth::internal::simulated {

std::uint32_t WakeupFile::poll() {
    return (count_ > 0 ? EPOLLIN : 0U) | (count_ < kMost ? EPOLLOUT : 0U);
}

ssize_t WakeupFile::read(Incoming& incoming) {
    if (incoming.data.remaining() < sizeof(count_)) {
        return -EINVAL;
    }
    if (count_ == 0) {
        return -EAGAIN;
    }
    const std::uint64_t value = std::exchange(count_, 0);
    incoming.data.put(std::as_bytes(std::span(&value, 1)));
    wake(EPOLLOUT);
    return sizeof(value);
}

ssize_t WakeupFile::write(Outgoing& outgoing) {
    std::uint64_t value = 0;
    if (outgoing.data.remaining() < sizeof(value)) {
        return -EINVAL;
    }
    outgoing.data.copy(std::as_writable_bytes(std::span(&value, 1)));
    if (value > kMost) {
        return -EINVAL;
    }
    if (value > kMost - count_) {
        return -EAGAIN;
    }
    count_ += value;
    wake(EPOLLIN);
    return sizeof(value);
}

}  // namespace berth::internal::simulated
