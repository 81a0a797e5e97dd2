// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/table/subject.h"

#include <chrono>

namespace berth::bench {

/// One round of taking and giving back from `threads` threads at once.
struct PairTiming {
    double p50_ns = 0;  // per pair, of batches of 64
    double p99_ns = 0;
    double max_ns = 0;  // the longest of the single pairs, one timed after each batch
    double pairs_per_second = 0;
    PairCount pairs;
};

PairTiming time_pairs(Subject& subject, unsigned threads, std::chrono::nanoseconds duration);

}  // namespace berth::bench
