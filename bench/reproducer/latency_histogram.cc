// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace berth::bench {
namespace {

constexpr unsigned kExact = 64;     // values below have a bucket each
constexpr unsigned kPartsBits = 5;  // 32 parts for each power of two above
constexpr unsigned kExactBits = 6;

void increase(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
    // One writer: no read-modify-write is needed.
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

unsigned LatencyHistogram::bucket_of(std::uint64_t value_ns) noexcept {
    if (value_ns < kExact) {
        return static_cast<unsigned>(value_ns);
    }
    const auto exponent = static_cast<unsigned>(std::bit_width(value_ns)) - 1;
    const auto part =
        static_cast<unsigned>(value_ns >> (exponent - kPartsBits)) - (1U << kPartsBits);
    const unsigned bucket = kExact + ((exponent - kExactBits) << kPartsBits) + part;
    return std::min(bucket, kBucketCount - 1);
}

double LatencyHistogram::middle_of(unsigned bucket) noexcept {
    if (bucket < kExact) {
        return bucket;
    }
    const unsigned exponent = ((bucket - kExact) >> kPartsBits) + kExactBits;
    const unsigned part = (bucket - kExact) & ((1U << kPartsBits) - 1);
    const double width = std::ldexp(1.0, static_cast<int>(exponent - kPartsBits));
    return ((1U << kPartsBits) + part + 0.5) * width - 0.5;
}

void LatencyHistogram::add(std::uint64_t value_ns) noexcept {
    increase(counts_[bucket_of(value_ns)], 1);
    increase(count_, 1);
    if (value_ns > max_ns()) {
        max_ns_.store(value_ns, std::memory_order_relaxed);
    }
}

void LatencyHistogram::merge(const LatencyHistogram& other) noexcept {
    for (unsigned bucket = 0; bucket < kBucketCount; ++bucket) {
        increase(counts_[bucket], other.counts_[bucket].load(std::memory_order_relaxed));
    }
    increase(count_, other.count());
    max_ns_.store(std::max(max_ns(), other.max_ns()), std::memory_order_relaxed);
}

double LatencyHistogram::quantile_ns(double q) const noexcept {
    const double exact_rank = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count()));
    const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(exact_rank));
    std::uint64_t below = 0;
    for (unsigned bucket = 0; bucket < kBucketCount; ++bucket) {
        below += counts_[bucket].load(std::memory_order_relaxed);
        if (below >= rank) {
            return std::min(middle_of(bucket), static_cast<double>(max_ns()));
        }
    }
    return 0;
}

}  // namespace berth::bench
