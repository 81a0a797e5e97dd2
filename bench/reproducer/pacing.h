// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace berth::bench {

/// When one of many workers must start its next bind so that all together make `rate` a second,
/// evenly spread. A worker that is late catches up, but what it missed more than a second ago is
/// dropped: a demand that was not met does not come back as a flood.
class Pacing {
public:
    /// `rate` > 0, in binds per second of all workers; `index` < `worker_count`.
    Pacing(std::uint64_t start_ns, double rate, unsigned index, unsigned worker_count) noexcept
        : interval_ns_(1e9 * worker_count / rate),
          origin_ns_(start_ns + static_cast<std::uint64_t>(1e9 * index / rate)) {}

    std::uint64_t due_ns() const noexcept {
        return origin_ns_ + static_cast<std::uint64_t>(static_cast<double>(turns_) * interval_ns_);
    }

    /// The bind that was due has begun.
    void advance(std::uint64_t now_ns) noexcept {
        constexpr std::uint64_t kMaxLagNs = 1'000'000'000;
        ++turns_;
        if (due_ns() + kMaxLagNs < now_ns) {
            origin_ns_ = now_ns;
            turns_ = 0;
        }
    }

private:
    double interval_ns_;
    std::uint64_t origin_ns_;
    std::uint64_t turns_ = 0;
};

}  // namespace berth::bench
