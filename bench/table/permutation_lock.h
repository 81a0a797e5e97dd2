// SPDX-License-Identifier: Apache-2.0
#pragma once

// The free ports as an array under a mutex: take a random one and move the last into its place.
// Uniform and constant time; it cannot live in shared memory (a holder of the lock that is killed
// leaves the array torn), and every thread waits for whoever holds the lock.

#include "src/base/random.h"

#include <cstdint>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

namespace berth::bench {

class PermutationLock {
public:
    explicit PermutationLock(std::uint32_t count) : free_(count) {
        std::iota(free_.begin(), free_.end(), std::uint32_t{0});
    }

    std::optional<std::uint32_t> take(internal::RandomStream& random) {
        const std::lock_guard guard(mutex_);
        if (free_.empty()) {
            return std::nullopt;
        }
        std::uint32_t& chosen = free_[random.below(static_cast<std::uint32_t>(free_.size()))];
        const std::uint32_t index = chosen;
        chosen = free_.back();
        free_.pop_back();
        return index;
    }

    void release(std::uint32_t index) {
        const std::lock_guard guard(mutex_);
        free_.push_back(index);  // never grows beyond its first size: no allocation
    }

private:
    std::mutex mutex_;
    std::vector<std::uint32_t> free_;  // protected by mutex_
};

}  // namespace berth::bench
