// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/echo/echo_pair.h"
#include "bench/harness/contenders.h"
#include "bench/harness/paired_slices.h"

#include <optional>

namespace berth::bench {

/// One program of a comparison, with all that was measured of it.
class EchoRunner {
public:
    /// `contender` must outlive it.
    EchoRunner(const Contender& contender, EchoPair pair)
        : contender_(&contender), pair_(std::move(pair)) {}

    const Contender& contender() const noexcept { return *contender_; }
    /// Server CPU time for each message, and messages a second, by round.
    const SliceSeries& cost() const noexcept { return cost_; }
    const SliceSeries& rate() const noexcept { return rate_; }

    // In this order; none after drop(). **Errors:** as EchoPair's; system when what came back was
    // not what was sent.
    Result<void> warm_up(std::chrono::nanoseconds duration);
    Result<void> run_slice(std::size_t round, std::chrono::nanoseconds duration);
    /// After the last slice, before anything else makes the server work.
    void read_totals();
    Result<void> count_system_calls(Reporter& reporter);
    /// Once or more, at one rate.
    Result<void> measure_latencies(double rate);

    /// Ends the server and its client.
    void drop() { pair_.reset(); }
    bool is_alive() const noexcept { return pair_.has_value(); }

    /// `raw` and `epoll` are what it is compared with; null for none.
    void add_figures(Row& row, const EchoRunner* raw, const EchoRunner* epoll) const;

private:
    Value latency(double q) const;

    const Contender* contender_;
    std::optional<EchoPair> pair_;
    SliceSeries cost_;
    SliceSeries rate_;
    std::uint64_t message_count_ = 0;
    std::uint64_t allocations_before_ = 0;
    CpuTicks ticks_before_;
    std::optional<double> allocations_per_message_;
    std::optional<double> user_percent_;
    std::optional<double> system_calls_per_message_;
    std::optional<double> load_per_second_;
    std::optional<std::int64_t> peak_rss_kib_;
};

}  // namespace berth::bench
