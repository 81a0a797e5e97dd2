// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/connect_plan.h"

#include "bench/connect/allocators.h"
#include "bench/guest/guest.h"
#include "bench/harness/choices.h"

#include <algorithm>

namespace berth::bench {
namespace {

constexpr Family kFamilies[] = {Family::ipv4};
constexpr unsigned kDestinations[] = {1, 2};
constexpr double kOccupancies[] = {0, 10, 45, 50, 60, 90, 99, 99.9, 100};
constexpr unsigned kRepeats = 7;
constexpr unsigned kExhaustionRepeats = 3;
constexpr double kSeconds = 12.0;

constexpr unsigned kHeadlineDestinations[] = {1};
constexpr std::string_view kHeadlineAllocators[] = {"kernel", "kernel+range", "berth", "floor"};
constexpr double kHeadlineOccupancies[] = {0, 60, 99.9, 100};
constexpr unsigned kHeadlineRepeats = 5;
constexpr unsigned kHeadlineExhaustionRepeats = 1;
constexpr double kHeadlineSeconds = 12.0;

}  // namespace

Result<ConnectPlan> make_connect_plan(const Selection& selection, const Environment& environment,
                                      Reporter& reporter) {
    const bool is_short = selection.is_headline;
    ConnectPlan plan;
    plan.families = BERTH_TRY(choose_families(selection, kFamilies, environment, reporter));
    plan.destination_counts = or_default(selection.destinations,
                                         is_short ? std::span<const unsigned>(kHeadlineDestinations)
                                                  : std::span<const unsigned>(kDestinations));
    plan.allocators = BERTH_TRY(choose_allocators_and_guests(
        selection,
        is_short ? std::span<const std::string_view>(kHeadlineAllocators) : connect_allocators(),
        reporter));
    plan.occupancies = choose_occupancies(
        selection, is_short ? std::span<const double>(kHeadlineOccupancies) : kOccupancies,
        environment, reporter);
    plan.repeats = selection.repeats.value_or(is_short ? kHeadlineRepeats : kRepeats);
    plan.exhaustion_repeats =
        selection.repeats.value_or(is_short ? kHeadlineExhaustionRepeats : kExhaustionRepeats);
    plan.seconds = selection.seconds.value_or(is_short ? kHeadlineSeconds : kSeconds);
    plan.seed = selection.seed;
    return plan;
}

FillOrder fill_order_of(const std::string& allocator) {
    return allocator == "kernel+bind" ? FillOrder::as_bind : FillOrder::as_connect;
}

std::vector<WorkerSetup> make_setups(const ConnectPlan& plan, const Environment& environment,
                                     Family family, unsigned destination_count) {
    std::vector<WorkerSetup> setups;
    for (const std::string& allocator : plan.allocators) {
        const FillOrder order = fill_order_of(allocator);
        auto setup = std::ranges::find(setups, order, &WorkerSetup::order);
        if (setup == setups.end()) {
            setups.push_back({.environment = environment,
                              .family = family,
                              .destination_count = destination_count,
                              .order = order,
                              .allocators = {},
                              .seed = plan.seed,
                              .seconds = plan.seconds});
            setup = std::prev(setups.end());
        }
        setup->allocators.push_back(allocator);
    }
    return setups;
}

}  // namespace berth::bench
