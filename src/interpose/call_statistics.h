// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the programs of a run count in shared memory when `--stats` asks for it.

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace berth::internal {

/// The calls that may need a port.
enum class Call : std::uint8_t { bind, connect, send, listen };
constexpr unsigned kCallCount = 4;

constexpr const char* name_of(Call call) noexcept {
    constexpr const char* kNames[kCallCount] = {"bind", "connect", "send", "listen"};
    return kNames[static_cast<unsigned>(call)];
}

/// Durations by size: 16 steps for each doubling, so that a figure is at most 6 % off.
class CostHistogram {
public:
    void add(std::uint64_t cost_ns) noexcept {
        buckets_[bucket_of(cost_ns)].fetch_add(1, std::memory_order_relaxed);
        std::uint64_t worst = worst_ns_.load(std::memory_order_relaxed);
        while (cost_ns > worst &&
               !worst_ns_.compare_exchange_weak(worst, cost_ns, std::memory_order_relaxed)) {
        }
    }
    std::uint64_t worst_ns() const noexcept { return worst_ns_.load(std::memory_order_relaxed); }
    /// 0 when nothing was added.
    std::uint64_t median_ns() const noexcept {
        const std::uint64_t half = (count() + 1) / 2;
        std::uint64_t below = 0;
        for (unsigned i = 0; half > 0 && i < kBucketCount; ++i) {
            below += buckets_[i].load(std::memory_order_relaxed);
            if (below >= half) return least_of(i);
        }
        return 0;
    }
    std::uint64_t count() const noexcept {
        std::uint64_t total = 0;
        for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
        return total;
    }

private:
    static constexpr unsigned kStepBits = 4;
    static constexpr unsigned kSteps = 1U << kStepBits;
    static constexpr unsigned kBucketCount = 40 * kSteps;  // up to 2^43 ns, 2 hours

    static constexpr unsigned bucket_of(std::uint64_t value) noexcept {
        if (value < kSteps) {
            return static_cast<unsigned>(value);
        }
        const auto shift = static_cast<unsigned>(std::bit_width(value)) - kStepBits - 1;
        const unsigned bucket =
            (shift + 1) * kSteps + (static_cast<unsigned>(value >> shift) - kSteps);
        return bucket < kBucketCount ? bucket : kBucketCount - 1;
    }
    static constexpr std::uint64_t least_of(unsigned bucket) noexcept {
        const unsigned shift = bucket / kSteps;
        return shift == 0 ? bucket : std::uint64_t{kSteps + bucket % kSteps} << (shift - 1);
    }

    std::array<std::atomic<std::uint64_t>, kBucketCount> buckets_;
    std::atomic<std::uint64_t> worst_ns_;
};

struct CallStatistics {
    std::array<std::atomic<std::uint64_t>, kCallCount> calls;  // that asked for a port
    std::atomic<std::uint64_t> given;                          // ports that a call got from a table
    std::atomic<std::uint64_t> noted;                          // ports that a program chose itself
    std::atomic<std::uint64_t> refused;                        // that the kernel did not accept
    std::atomic<std::uint64_t> retried;     // calls that needed more than one port for that
    std::atomic<std::uint64_t> by_kernel;   // ports that the kernel chose in the end
    std::atomic<std::uint64_t> waited;      // calls that waited for a port
    std::atomic<std::uint64_t> failed;      // calls that got none
    std::atomic<std::uint32_t> most_taken;  // ports at once, of the fullest space
    std::array<CostHistogram, kCallCount> costs;
};

}  // namespace berth::internal
