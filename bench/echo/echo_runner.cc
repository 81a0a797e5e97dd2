// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/echo_runner.h"

#include "bench/harness/allocation_count.h"
#include "bench/harness/system_call_count.h"

#include <cmath>

namespace berth::bench {
namespace {

constexpr std::chrono::milliseconds kCountingSlice{50};
constexpr std::chrono::milliseconds kLatencySlice{100};

Result<EchoSlice> checked(Result<EchoSlice> slice) {
    if (slice && !slice->is_intact) {
        return std::unexpected(
            Error(Errc::system, "echo", "messages", 0, "what came back was not what was sent"));
    }
    return slice;
}

}  // namespace

Result<void> EchoRunner::warm_up(std::chrono::nanoseconds duration) {
    BERTH_TRY(checked(pair_->run_closed(duration)));
    allocations_before_ = pair_->server_allocation_count();
    ticks_before_ = process_cpu_ticks(pair_->server());
    return {};
}

Result<void> EchoRunner::run_slice(std::size_t round, std::chrono::nanoseconds duration) {
    const EchoSlice slice = BERTH_TRY(checked(pair_->run_closed(duration)));
    const auto messages = static_cast<double>(slice.message_count);
    cost_.set(round, static_cast<double>(slice.server_cpu_ns) / messages);
    rate_.set(round, messages * 1e9 / static_cast<double>(slice.elapsed_ns));
    message_count_ += slice.message_count;
    return {};
}

void EchoRunner::read_totals() {
    const std::uint64_t allocations = pair_->server_allocation_count() - allocations_before_;
    if (counts_allocations() && message_count_ > 0) {
        allocations_per_message_ =
            static_cast<double>(allocations) / static_cast<double>(message_count_);
    }
    const CpuTicks ticks = process_cpu_ticks(pair_->server()) - ticks_before_;
    if (ticks.user + ticks.system > 0) {
        user_percent_ = 100.0 * static_cast<double>(ticks.user) /
                        static_cast<double>(ticks.user + ticks.system);
    }
    peak_rss_kib_ = process_peak_rss_kib(pair_->server());
}

Result<void> EchoRunner::count_system_calls(Reporter& reporter) {
    system_calls_per_message_ = BERTH_TRY(pair_->count_system_calls(kCountingSlice));
    note_system_call_counting(system_calls_per_message_.has_value(), reporter);
    return {};
}

Result<void> EchoRunner::measure_latencies(double rate) {
    BERTH_TRY(checked(pair_->run_open(rate, kLatencySlice)));
    load_per_second_ = rate;
    return {};
}

Value EchoRunner::latency(double q) const {
    return load_per_second_ ? Value{std::round(pair_->latencies().quantile_ns(q))} : Value{};
}

void EchoRunner::add_figures(Row& row, const EchoRunner* raw, const EchoRunner* epoll) const {
    row.figure("cpu_ns_per_message", cost_.median());
    add_cpu_shares(row, cost_.median(), user_percent_);
    row.figure("messages_per_second", rate_.median())
        .figure("p50_ns", latency(0.5))
        .figure("p99_ns", latency(0.99))
        .figure("load_per_second", to_value(load_per_second_))
        .figure("syscalls_per_message", to_value(system_calls_per_message_))
        .figure("allocations_per_message", to_value(allocations_per_message_))
        .figure("ratio_to_raw", raw ? cost_.ratio_to(raw->cost_) : Value{})
        .figure("ratio_to_epoll", epoll ? cost_.ratio_to(epoll->cost_) : Value{})
        .figure("spread_percent", cost_.spread_percent())
        .figure("rounds", static_cast<std::int64_t>(cost_.count()))
        .figure("peak_rss_kib", to_value(peak_rss_kib_));
}

}  // namespace berth::bench
