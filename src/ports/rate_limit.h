// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/clock.h"

#include <atomic>
#include <cstdint>

namespace berth::internal {

/// How often at most a table is reconciled by itself.
constexpr std::uint64_t kReconcileIntervalMs = 1'000;

/// How often at most the kernel is asked for a port while a table has none: it searches for
/// milliseconds before it says no.
constexpr std::uint64_t kRecheckIntervalMs = 100;

/// Ports, or for connections 4-tuples, that the kernel may refuse before it is asked for all that
/// it has: by then the table knows too little. A refused port costs a microsecond, a 4-tuple three.
constexpr unsigned kRefusalLimit = 8;

/// True for one caller per interval, in all processes that share `next_ms` together.
inline bool pass_once(std::atomic<std::uint64_t>& next_ms, std::uint64_t interval_ms) noexcept {
    const std::uint64_t now = coarse_now_ms();
    std::uint64_t next = next_ms.load(std::memory_order_relaxed);
    return now >= next && next_ms.compare_exchange_strong(next, now + interval_ms);
}

}  // namespace berth::internal
