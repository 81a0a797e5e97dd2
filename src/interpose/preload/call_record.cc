// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/call_record.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace berth::internal {
namespace {

std::uint64_t read_clock(clockid_t clock) noexcept {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

bool is_recorded() noexcept {
    const RunOptions& options = guest.options();
    return (options.is_counting | options.is_logging) != 0;
}

void add_one(std::atomic<std::uint64_t>& counter, bool is_so = true) noexcept {
    if (is_so) counter.fetch_add(1, std::memory_order_relaxed);
}

// The fullest of the spaces of wildcard sockets and connections; a port that rests counts as taken.
void note_occupancy(Protocol protocol) noexcept {
    TableCore& table = guest.table(protocol);
    std::uint32_t free = table.range().size();
    for (const unsigned first : {kWildcardSpace, kConnectedSpace}) {
        for (const unsigned index : {first, first + 1}) {
            free = std::min(free, table.space(index).free.free_count_hint());
        }
    }
    const std::uint32_t size = table.range().size();
    const std::uint32_t taken = size - free;
    auto& most = guest.page->statistics.most_taken;
    std::uint32_t seen = most.load(std::memory_order_relaxed);
    while (taken > seen && !most.compare_exchange_weak(seen, taken, std::memory_order_relaxed)) {
    }
}

}  // namespace

CallRecord::CallRecord(Call call) noexcept : call_(call) {
    if (is_recorded()) start_ns_ = read_clock(CLOCK_MONOTONIC);
}

void CallRecord::finish(int error) noexcept {
    if (!is_recorded()) {
        return;
    }
    const std::uint64_t cost_ns = read_clock(CLOCK_MONOTONIC) - start_ns_;
    if (guest.options().is_counting != 0) count(cost_ns);
    if (guest.options().is_logging != 0) log(error, cost_ns);
}

void CallRecord::count(std::uint64_t cost_ns) noexcept {
    CallStatistics& statistics = guest.page->statistics;
    const auto index = static_cast<unsigned>(call_);
    add_one(statistics.calls[index]);
    add_one(statistics.given, source_ == PortSource::table);
    add_one(statistics.noted, source_ == PortSource::program);
    add_one(statistics.by_kernel, source_ == PortSource::kernel);
    add_one(statistics.waited, has_waited_);
    add_one(statistics.failed, is_exhausted_);
    add_one(statistics.retried, refusals_ != 0);
    statistics.refused.fetch_add(refusals_, std::memory_order_relaxed);
    statistics.costs[index].add(cost_ns);
    note_occupancy(protocol_);
}

void CallRecord::log(int error, std::uint64_t cost_ns) noexcept {
    guest.page->events.add(
        {.time_ns = read_clock(CLOCK_REALTIME),
         .pid = static_cast<std::uint32_t>(::getpid()),
         .error = error,
         .cost_ns = static_cast<std::uint32_t>(std::min<std::uint64_t>(cost_ns, UINT32_MAX)),
         .port = port_,
         .call = call_,
         .protocol = static_cast<std::uint8_t>(protocol_),
         .refusals = static_cast<std::uint8_t>(std::min(refusals_, 255U)),
         .source = static_cast<std::uint8_t>(source_)});
}

}  // namespace berth::internal
