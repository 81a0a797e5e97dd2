// SPDX-License-Identifier: Apache-2.0
#include "bench/table/pair_timing.h"

#include "bench/harness/statistics.h"

#include <algorithm>
#include <latch>
#include <thread>
#include <vector>

namespace berth::bench {
namespace {

constexpr unsigned kBatchPairs = 64;

struct ThreadTiming {
    std::vector<std::uint64_t> batches_ns;
    std::uint64_t longest_pair_ns = 0;
    PairCount pairs;

    void add(const PairCount& more) {
        pairs.succeeded += more.succeeded;
        pairs.failed += more.failed;
    }
};

ThreadTiming run_thread(Subject& subject, std::latch& start, std::uint64_t duration_ns) {
    ThreadTiming timing;
    timing.batches_ns.reserve(1 << 14);
    timing.add(subject.take_and_release(kBatchPairs));  // the thread's random stream is keyed here
    start.arrive_and_wait();
    std::uint64_t begin = now_ns();
    const std::uint64_t deadline = begin + duration_ns;
    while (begin < deadline) {
        timing.add(subject.take_and_release(kBatchPairs));
        const std::uint64_t middle = now_ns();
        timing.add(subject.take_and_release(1));
        const std::uint64_t end = now_ns();
        timing.batches_ns.push_back(middle - begin);
        timing.longest_pair_ns = std::max(timing.longest_pair_ns, end - middle);
        begin = end;
    }
    return timing;
}

PairTiming merge(std::vector<ThreadTiming>& parts, double seconds) {
    PairTiming result;
    std::vector<std::uint64_t> batches;
    for (const ThreadTiming& part : parts) {
        batches.insert(batches.end(), part.batches_ns.begin(), part.batches_ns.end());
        result.max_ns = std::max(result.max_ns, static_cast<double>(part.longest_pair_ns));
        result.pairs.succeeded += part.pairs.succeeded;
        result.pairs.failed += part.pairs.failed;
    }
    result.p50_ns = quantile(batches, 0.5) / kBatchPairs;
    result.p99_ns = quantile(batches, 0.99) / kBatchPairs;
    result.pairs_per_second =
        static_cast<double>(result.pairs.succeeded + result.pairs.failed) / seconds;
    return result;
}

}  // namespace

PairTiming time_pairs(Subject& subject, unsigned threads, std::chrono::nanoseconds duration) {
    const auto duration_ns = static_cast<std::uint64_t>(duration.count());
    std::vector<ThreadTiming> parts(threads);
    std::latch start(static_cast<std::ptrdiff_t>(threads) + 1);
    std::vector<std::jthread> running;
    for (ThreadTiming& part : parts) {
        running.emplace_back([&] { part = run_thread(subject, start, duration_ns); });
    }
    start.arrive_and_wait();
    const std::uint64_t begin = now_ns();
    running.clear();
    return merge(parts, static_cast<double>(now_ns() - begin) / 1e9);
}

}  // namespace berth::bench
