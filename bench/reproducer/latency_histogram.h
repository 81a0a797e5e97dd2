// SPDX-License-Identifier: Apache-2.0
#pragma once

// Counts of durations in buckets whose width grows with the value (the layout of HdrHistogram):
// every power of two is cut into 32 equal parts, so a quantile read from it is off by at most
// 1.6 %. Plain atomic memory: it may lie in memory shared between processes. One writer, any
// number of readers.
//
//   values    0…63 ns   64…127   128…255   …   up to 2^41 ns (36 minutes), then the last bucket
//   buckets      64        32        32    …

#include <array>
#include <atomic>
#include <cstdint>

namespace berth::bench {

class LatencyHistogram {
public:
    static constexpr unsigned kBucketCount = 64 + 32 * 35;

    /// One writer at a time.
    void add(std::uint64_t value_ns) noexcept;
    /// Adds the counts of `other`, which nobody writes any more.
    void merge(const LatencyHistogram& other) noexcept;

    std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
    std::uint64_t max_ns() const noexcept { return max_ns_.load(std::memory_order_relaxed); }
    /// The q-quantile (0..1) by nearest rank, the middle of its bucket; 0 without values.
    double quantile_ns(double q) const noexcept;

    static unsigned bucket_of(std::uint64_t value_ns) noexcept;
    static double middle_of(unsigned bucket) noexcept;

private:
    std::array<std::atomic<std::uint64_t>, kBucketCount> counts_{};
    std::atomic<std::uint64_t> count_{0};
    std::atomic<std::uint64_t> max_ns_{0};
};

}  // namespace berth::bench
