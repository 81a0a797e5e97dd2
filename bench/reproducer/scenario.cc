// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/scenario.h"

#include "bench/guest/guest.h"
#include "bench/harness/choices.h"
#include "bench/harness/environment.h"
#include "bench/reproducer/allocators.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace berth::bench {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"kernel",      "berth-shared",   "berth",
                                                    kRunAllocator, kRunBpfAllocator, "spin"};
constexpr std::array<Family, 1> kFamilies = {Family::ipv4};

/// The equal demand at which the kernel's search hurts: UDP nearly full, TCP beyond half. With
/// every worker's sockets, so much of the range is taken.
struct Demand {
    double rate;
    double occupancy_percent;
};
constexpr Demand kUdpDemand = {5'000, 99.97};
constexpr Demand kTcpDemand = {1'000, 60};

const Demand& demand_of(Protocol protocol) {
    return protocol == Protocol::udp ? kUdpDemand : kTcpDemand;
}

Result<unsigned> held_port_count(const Selection& selection, const Environment& environment,
                                 const Scenario& scenario) {
    const unsigned range_size = environment.range.size();
    if (selection.hold_percent) {
        const double percent = *selection.hold_percent;
        if (!(percent >= 0 && percent <= 100)) {
            return std::unexpected(Error(Errc::invalid_argument, "bench reproducer", "--hold", 0,
                                         "the holder takes a part of the range",
                                         "0 to 100 percent are accepted"));
        }
        return ports_at(percent, range_size);
    }
    if (!scenario.is_paced()) {
        return 0U;
    }
    const unsigned taken = ports_at(demand_of(scenario.protocol).occupancy_percent, range_size);
    const unsigned by_workers = kHeldByWorker * scenario.workers;
    return taken > by_workers ? taken - by_workers : 0U;
}

/// Empty when the allocator cannot run in a mode that it was not asked for by name in.
Result<std::optional<WorkerMode>> mode_for(const Selection& selection,
                                           const std::string& allocator) {
    const bool is_one_process = allocator == "berth";
    if (!selection.mode) {
        return is_one_process ? WorkerMode::threads : WorkerMode::processes;
    }
    if (!is_one_process || *selection.mode == WorkerMode::threads) {
        return *selection.mode;
    }
    if (!selection.allocators.empty()) {
        return std::unexpected(Error(Errc::invalid_argument, "bench reproducer", allocator, 0,
                                     "its table lives in one process",
                                     "use berth-shared, or --mode threads"));
    }
    return std::optional<WorkerMode>();
}

Result<void> check(const Selection& selection) {
    if (selection.workers && *selection.workers == 0) {
        return std::unexpected(Error(Errc::invalid_argument, "bench reproducer", "--workers", 0,
                                     "there must be one at least"));
    }
    if (selection.rate && !(*selection.rate >= 0 && std::isfinite(*selection.rate))) {
        return std::unexpected(Error(Errc::invalid_argument, "bench reproducer", "--rate", 0,
                                     "a rate is 0 (as fast as possible) or more"));
    }
    return {};
}

/// The protocols to run; without a demand, UDP only: the kernel takes a minute to fill TCP.
std::vector<Protocol> protocols_of(const Selection& selection) {
    if (!selection.protocols.empty()) {
        return selection.protocols;
    }
    const bool is_unlimited = selection.rate && *selection.rate == 0;
    return is_unlimited ? std::vector{Protocol::udp} : std::vector{Protocol::udp, Protocol::tcp};
}

RunTimes times_of(const Selection& selection) {
    RunTimes times;
    if (selection.is_headline) {
        times = {.before = 0.5, .warm_up = 0.6, .during = 1.5, .after = 0.5};
    }
    times.during = selection.seconds.value_or(times.during);
    if (selection.rate && *selection.rate == 0) {
        times.warm_up = std::max(2.0, times.during / 2);  // the workers fill the range
    }
    return times;
}

}  // namespace

std::span<const std::string_view> reproducer_allocators() noexcept { return kNames; }

Result<ReproducerPlan> plan_reproducer(const Selection& selection, const Environment& environment,
                                       Reporter& reporter) {
    BERTH_TRY(check(selection));
    const auto families = BERTH_TRY(choose_families(selection, kFamilies, environment, reporter));
    auto allocators = BERTH_TRY(choose_allocators_and_guests(selection, kNames, reporter));
    ReproducerPlan plan;
    plan.times = times_of(selection);
    plan.rounds = selection.repeats.value_or(selection.is_headline ? 1 : 2);
    for (const Protocol protocol : protocols_of(selection)) {
        for (const Family family : families) {
            for (const std::string& allocator : allocators) {
                const auto mode = BERTH_TRY(mode_for(selection, allocator));
                if (!mode) {
                    reporter.note("berth is left out: its table lives in one process", false);
                    continue;
                }
                Scenario scenario{.protocol = protocol,
                                  .family = family,
                                  .allocator = allocator,
                                  .mode = *mode,
                                  .workers = selection.workers.value_or(64),
                                  .rate = selection.rate.value_or(demand_of(protocol).rate)};
                scenario.held_port_count =
                    BERTH_TRY(held_port_count(selection, environment, scenario));
                plan.scenarios.push_back(std::move(scenario));
            }
        }
    }
    return plan;
}

}  // namespace berth::bench
