// SPDX-License-Identifier: Apache-2.0
#include "bench/timers/costs.h"

#include "bench/harness/statistics.h"

#include <algorithm>
#include <numeric>

namespace berth::bench {
namespace {

constexpr std::uint64_t kMinuteNs = 60'000'000'000;
constexpr std::uint64_t kLeastShortNs = 1'000'000;

std::vector<std::uint64_t> random_timeouts(std::uint32_t count, std::uint64_t least_ns,
                                           std::uint64_t most_ns, std::mt19937_64& random) {
    std::uniform_int_distribution<std::uint64_t> timeout_ns(least_ns, most_ns);
    std::vector<std::uint64_t> timeouts_ns(count);
    std::ranges::generate(timeouts_ns, [&] { return timeout_ns(random); });
    return timeouts_ns;
}

std::vector<std::uint32_t> random_order(std::uint32_t count, std::mt19937_64& random) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::shuffle(order, random);
    return order;
}

template <class Body>
double cost_ns(std::size_t count, const Body& body) {
    const std::uint64_t begin = thread_cpu_ns();
    body();
    return static_cast<double>(thread_cpu_ns() - begin) / static_cast<double>(count);
}

}  // namespace

TimerPlan make_timer_plan(std::uint32_t count, std::uint64_t window_ns, std::mt19937_64& random) {
    TimerPlan plan;
    plan.timeouts_ns = random_timeouts(count, kMinuteNs, 2 * kMinuteNs, random);
    const auto later_ns = random_timeouts(count, kMinuteNs, 2 * kMinuteNs, random);
    for (const std::uint32_t timer : random_order(count, random)) {
        plan.rearms.push_back(
            {.timeout_ns = plan.timeouts_ns[timer] + later_ns[timer], .timer = timer});
    }
    plan.cancels = random_order(count, random);
    plan.window_ns = std::max(window_ns, kLeastShortNs);
    plan.short_timeouts_ns = random_timeouts(count, kLeastShortNs, plan.window_ns, random);
    return plan;
}

Result<TimerCosts> measure_timers(std::string_view program, TimerSubject& subject,
                                  const TimerPlan& plan) {
    const std::size_t count = plan.timeouts_ns.size();
    TimerCosts costs;
    costs.schedule_ns = cost_ns(count, [&] { subject.schedule(plan.timeouts_ns); });
    costs.rearm_ns = cost_ns(count, [&] { subject.rearm(plan.rearms); });
    costs.cancel_ns = cost_ns(count, [&] { subject.cancel(plan.cancels); });
    subject.schedule(plan.short_timeouts_ns);
    subject.let_pass(plan.window_ns);
    costs.fire_ns = cost_ns(count, [&] { subject.fire(); });
    if (subject.fired_count() != count) {
        return std::unexpected(
            Error(Errc::system, "bench timers", program, 0, "not every timer fired once"));
    }
    return costs;
}

}  // namespace berth::bench
