// SPDX-License-Identifier: Apache-2.0
// `berth bench echo`: what a message of 64 bytes and its way back cost a server, and how long they
// take, over few and very many connections.

#include "bench/echo/echo_comparison.h"
#include "bench/harness/choices.h"

namespace berth::bench {
namespace {

constexpr unsigned kConnections[] = {1, 100, 1'000, 8'000};
constexpr double kSeconds = 16;  // for each number of connections

constexpr unsigned kHeadlineConnections[] = {100};
constexpr double kHeadlineSeconds = 3;

}  // namespace

Result<void> run_echo(const Selection& selection, const Environment& environment,
                      Reporter& reporter) {
    const bool is_short = selection.is_headline;
    EchoPlan plan;
    plan.bench = "echo";
    plan.contenders = BERTH_TRY(choose_contenders(
        selection, loop_defaults(is_short),
        [](const Program& program) { return program.echo != nullptr; }, reporter));
    const std::vector<unsigned> counts = possible_connections(
        or_default(selection.connections, is_short ? std::span<const unsigned>(kHeadlineConnections)
                                                   : std::span<const unsigned>(kConnections)),
        0, !selection.connections.empty(), environment, reporter);
    for (const unsigned count : counts) {
        plan.cells.push_back({.active = count, .idle = 0, .has_latencies = true});
    }
    plan.limits = RoundLimits::from(selection, is_short ? kHeadlineSeconds : kSeconds);
    plan.seed = selection.seed;
    return compare_echo_servers(plan, environment, reporter);
}

}  // namespace berth::bench
