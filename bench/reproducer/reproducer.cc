// SPDX-License-Identifier: Apache-2.0
// `berth bench reproducer`: many workers that bind, beside a probe that draws frames: what a host's
// port search does to everything else on it.
#include "bench/harness/environment.h"
#include "bench/harness/statistics.h"
#include "bench/harness/workload.h"
#include "bench/reproducer/probe.h"
#include "bench/reproducer/run_scenario.h"
#include "bench/reproducer/scenario.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

namespace berth::bench {
namespace {

using Rounds = std::vector<Measurement>;

/// The median over the rounds of what `figure` gives; null when it gives nothing.
template <class Figure>
Value median_of(const Rounds& rounds, Figure figure) {
    std::vector<double> values;
    for (const Measurement& round : rounds) {
        if (const std::optional<double> value = figure(round)) {
            values.push_back(*value);
        }
    }
    return values.empty() ? Value() : Value(median(values));
}

template <class Figure>
std::int64_t sum_of(const Rounds& rounds, Figure figure) {
    std::int64_t sum = 0;
    for (const Measurement& round : rounds) {
        sum += static_cast<std::int64_t>(figure(round));
    }
    return sum;
}

/// Frames during, as a part of the mean of before and after: a machine that becomes slower for
/// other reasons is not held against the workers.
std::optional<double> kept_percent(const Measurement& round) {
    if (!round.before.per_second || !round.during.per_second || !round.after.per_second) {
        return std::nullopt;
    }
    const double undisturbed = (*round.before.per_second + *round.after.per_second) / 2;
    return undisturbed > 0 ? std::optional(*round.during.per_second * 100 / undisturbed)
                           : std::nullopt;
}

double binds_per_second(const Measurement& round) {
    return static_cast<double>(round.succeeded) / round.seconds;
}

void add_frame_figures(Row& row, const Rounds& rounds) {
    std::vector<double> during;
    for (const Measurement& round : rounds) {
        during.push_back(round.during.per_second.value_or(0));
    }
    row.figure("fps_before", median_of(rounds, [](auto& round) { return round.before.per_second; }))
        .figure("fps_during",
                median_of(rounds, [](auto& round) { return round.during.per_second; }))
        .figure("fps_after", median_of(rounds, [](auto& round) { return round.after.per_second; }))
        .figure("fps_kept_percent", median_of(rounds, kept_percent))
        .figure("longest_frame_ms",
                median_of(rounds, [](auto& round) { return round.during.longest_ms; }))
        .figure("spread_percent", spread_percent(during));
}

void add_bind_figures(Row& row, const Scenario& scenario, const Rounds& rounds) {
    const auto figure = [&](const char* name, auto value) {
        row.figure(name, scenario.is_spin() ? Value() : Value(std::move(value)));
    };
    const auto middle = [&](auto member) {
        return median_of(rounds, [member](const Measurement& round) {
            return std::optional<double>(std::invoke(member, round));
        });
    };
    const auto demand_met = [&scenario](const Measurement& round) {
        return scenario.is_paced() ? std::optional(binds_per_second(round) * 100 / scenario.rate)
                                   : std::nullopt;
    };
    double longest_ns = 0;
    for (const Measurement& round : rounds) {
        longest_ns = std::max(longest_ns, round.max_ns);
    }
    figure("binds_per_second", middle(binds_per_second));
    figure("demand_met_percent", median_of(rounds, demand_met));
    figure("succeeded", sum_of(rounds, [](auto& round) { return round.succeeded; }));
    figure("failed", sum_of(rounds, [](auto& round) { return round.failed; }));
    figure("p50_ns", middle(&Measurement::p50_ns));
    figure("p99_ns", middle(&Measurement::p99_ns));
    figure("max_ns", longest_ns);
    figure("occupancy_reached_percent", middle(&Measurement::occupancy_percent));
    row.figure("peak_rss_kib", rounds.front().peak_rss_kib);
}

void report(const Scenario& scenario, const Environment& environment, const Rounds& rounds,
            Reporter& reporter) {
    const double held_percent = static_cast<double>(scenario.held_port_count) * 100.0 /
                                static_cast<double>(environment.range.size());
    Row row{.bench = "reproducer", .variables = {}, .figures = {}};
    row.variable("protocol", std::string(to_string(scenario.protocol)))
        .variable("family", std::string(to_string(scenario.family)))
        .variable("allocator", scenario.allocator)
        .variable("mode", scenario.mode == WorkerMode::threads ? "threads" : "processes")
        .variable("workers", std::int64_t{scenario.workers})
        .variable("rate", scenario.rate)
        .variable("hold_percent", std::round(held_percent * 100) / 100);
    add_frame_figures(row, rounds);
    add_bind_figures(row, scenario, rounds);
    reporter.row(std::move(row));
    if (sum_of(rounds, [](auto& round) { return round.without_socket; }) != 0) {
        reporter.note(scenario.allocator + ": some sockets could not be made, RLIMIT_NOFILE is " +
                          std::to_string(environment.descriptor_limit),
                      true);
    }
}

/// Leaves out what cannot run here, and says so.
void restrict(ReproducerPlan& plan, const Environment& environment, Reporter& reporter) {
    const unsigned usable = usable_port_count(environment);
    const auto removed = std::erase_if(plan.scenarios, [usable](const Scenario& scenario) {
        return !scenario.is_spin() && scenario.held_port_count > usable;
    });
    if (removed != 0) {
        reporter.note(
            "some rows are left out: at most " + std::to_string(usable) + " ports may be held here",
            true);
    }
}

Result<std::vector<Rounds>> run_rounds(const ReproducerPlan& plan, const Selection& selection,
                                       const Environment& environment, Probe& probe,
                                       Reporter& reporter) {
    std::vector<Rounds> results(plan.scenarios.size());
    std::vector<std::size_t> order(plan.scenarios.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 random(selection.seed);
    const double step_count = static_cast<double>(plan.rounds * order.size());
    double step = 0;
    for (unsigned round = 0; round < plan.rounds; ++round) {
        std::ranges::shuffle(order, random);
        for (const std::size_t index : order) {
            const Scenario& scenario = plan.scenarios[index];
            reporter.progress(step++ / step_count,
                              std::string(to_string(scenario.protocol)) + " " + scenario.allocator);
            auto measured = BERTH_TRY(
                run_scenario(scenario, plan.times, random(), environment, probe, reporter));
            if (!measured) {
                return results;
            }
            results[index].push_back(*measured);
        }
    }
    return results;
}

Result<std::unique_ptr<Probe>> start_probe(const Selection& selection) {
    return selection.probe_command.empty() ? start_own_probe()
                                           : start_command_probe(selection.probe_command);
}

}  // namespace

Result<void> run_reproducer(const Selection& selection, const Environment& environment,
                            Reporter& reporter) {
    if (environment.isolation == Isolation::host && selection.is_headline) {
        reporter.note(
            "the reproducer is left out: it takes nearly all ports, which needs a "
            "network namespace of its own",
            true);
        return {};
    }
    if (environment.isolation == Isolation::host) {
        return std::unexpected(Error(Errc::permission_denied, "bench", "reproducer", 0,
                                     "it takes nearly all ports, for which it needs a network "
                                     "namespace of its own",
                                     "run it as root, or allow user namespaces "
                                     "(user.max_user_namespaces); bind and connect work without"));
    }
    ReproducerPlan plan = BERTH_TRY(plan_reproducer(selection, environment, reporter));
    restrict(plan, environment, reporter);
    const std::unique_ptr<Probe> probe = BERTH_TRY(start_probe(selection));
    const auto results = BERTH_TRY(run_rounds(plan, selection, environment, *probe, reporter));
    for (std::size_t index = 0; index < plan.scenarios.size(); ++index) {
        if (!results[index].empty()) {
            report(plan.scenarios[index], environment, results[index], reporter);
        }
    }
    if (const auto problem = probe->problem()) {
        reporter.note(*problem, true);
    }
    return {};
}

}  // namespace berth::bench
