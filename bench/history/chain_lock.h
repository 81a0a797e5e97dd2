// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace berth::bench {

/// A lock of four bytes, as small as the kernel's, so that a table of 65,536 chains is no larger
/// here than there. Waiters sleep. BasicLockable.
class ChainLock {
public:
    void lock() noexcept {
        std::uint32_t expected = kFree;
        if (state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) {
            return;
        }
        while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
            state_.wait(kContended, std::memory_order_relaxed);
        }
    }
    void unlock() noexcept {
        if (state_.exchange(kFree, std::memory_order_release) == kContended) {
            state_.notify_one();
        }
    }

private:
    static constexpr std::uint32_t kFree = 0;
    static constexpr std::uint32_t kHeld = 1;
    static constexpr std::uint32_t kContended = 2;
    std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace berth::bench
