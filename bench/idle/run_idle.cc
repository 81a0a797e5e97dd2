// SPDX-License-Identifier: Apache-2.0
// `berth bench idle`: what an event costs while most connections say nothing: a hundred are active
// at any moment, among more and more.

#include "bench/echo/echo_comparison.h"
#include "bench/harness/choices.h"

namespace berth::bench {
namespace {

constexpr unsigned kActive = 100;
constexpr unsigned kIdle[] = {0, 900, 7'900, 18'900};
constexpr double kSeconds = 10;  // for each number of connections

constexpr unsigned kHeadlineIdle[] = {7'900};
constexpr double kHeadlineSeconds = 4;

}  // namespace

Result<void> run_idle(const Selection& selection, const Environment& environment,
                      Reporter& reporter) {
    const bool is_short = selection.is_headline;
    EchoPlan plan;
    plan.bench = "idle";
    // With poll, whose cost grows with the connections.
    plan.contenders = BERTH_TRY(choose_contenders(
        selection, loop_defaults(is_short, {"poll", "epoll", "io_uring"}),
        [](const Program& program) { return program.echo != nullptr; }, reporter));
    for (const unsigned active : or_default(selection.connections, std::span(&kActive, 1))) {
        const std::vector<unsigned> counts = possible_connections(
            or_default(selection.idle, is_short ? std::span<const unsigned>(kHeadlineIdle)
                                                : std::span<const unsigned>(kIdle)),
            active, !selection.idle.empty(), environment, reporter);
        for (const unsigned idle : counts) {
            plan.cells.push_back({.active = active, .idle = idle, .has_latencies = false});
        }
    }
    plan.limits = RoundLimits::from(selection, is_short ? kHeadlineSeconds : kSeconds);
    plan.seed = selection.seed;
    return compare_echo_servers(plan, environment, reporter);
}

}  // namespace berth::bench
