// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory for what entries of the submission queue point to until the kernel has taken them:
// message headers and lists of parts. Used from the front, all of it free again once the queue is
// empty.

#include "src/engine/io_uring/ring.h"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace berth::internal {

class Scratch {
public:
    /// Room for a T, not initialised, of which the first `used` bytes are to be kept by keep().
    /// Null when there is no memory.
    template <class T>
    T* room(Ring& ring) noexcept {
        static_assert(std::is_trivially_destructible_v<T> && sizeof(T) <= kChunkSize);
        if (kChunkSize - used_ < sizeof(T) || chunks_.empty()) {
            if (!turn_over(ring)) {
                return nullptr;
            }
        }
        return ::new (chunks_[current_].get() + used_) T;
    }
    void keep(std::size_t used) noexcept { used_ += (used + 15) / 16 * 16; }
    /// Once a turn: begins at the front again when it can, where the cache is warm.
    void rewind(const Ring& ring) noexcept {
        if (ring.unsubmitted_count() == 0) {
            current_ = 0;
            used_ = 0;
        }
    }

private:
    static constexpr std::size_t kChunkSize = 64 * 1024;

    // The entries that point here are sent off, so that all of it can be used again. What the
    // kernel does not take keeps its memory, and there is more.
    bool turn_over(Ring& ring) noexcept {
        if (!chunks_.empty()) {
            ring.submit();
        }
        if (ring.unsubmitted_count() == 0 && !chunks_.empty()) {
            current_ = 0;
        } else if (current_ + 1 < chunks_.size()) {
            ++current_;
        } else {
            std::unique_ptr<std::byte[]> chunk(new (std::nothrow) std::byte[kChunkSize]);
            if (chunk == nullptr) {
                return false;
            }
            current_ = chunks_.size();
            chunks_.push_back(std::move(chunk));
        }
        used_ = 0;
        return true;
    }

    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::size_t current_ = 0;
    std::size_t used_ = 0;
};

}  // namespace berth::internal
