// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/byte_queue.h"

#include <cstring>

namespace berth::internal::simulated {

std::span<std::byte> ByteQueue::extend(std::size_t count) {
    // Moving the rest to the front when at least half is gone costs O(1) a byte.
    if (head_ >= size()) {
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
        head_ = 0;
    }
    bytes_.resize(bytes_.size() + count);
    charge_.resize(size());
    return std::span(bytes_).last(count);
}

void ByteQueue::append(std::span<const std::byte> bytes) {
    if (!bytes.empty()) {
        std::memcpy(extend(bytes.size()).data(), bytes.data(), bytes.size());
    }
}

void ByteQueue::drop(std::size_t count) {
    head_ += count;
    if (head_ == bytes_.size()) {
        bytes_.clear();
        head_ = 0;
    }
    charge_.resize(size());
}

}  // namespace berth::internal::simulated
