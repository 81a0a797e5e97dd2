// SPDX-License-Identifier: Apache-2.0
// `berth bench timers`: what it costs to schedule, push back, cancel and fire a timer among a
// million, with berth's wheel, the timers of other event loops, and two structures as models. The
// cost is CPU time, with the callback of each timer that fires: it notes the timer's number.
//
// Pushing back berth's timers is lazy: the move to the new place is put off to the old deadline,
// and is not made at all for a timer that goes before.
#include "bench/timers/run_timers.h"

#include "bench/harness/choices.h"
#include "bench/harness/statistics.h"
#include "bench/timers/costs.h"
#include "bench/timers/programs.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace berth::bench {
namespace {

constexpr std::uint32_t kTimers = 1'000'000;
constexpr std::uint32_t kFewTimers = 100'000;  // the short form
constexpr std::uint64_t kWindowNs = 500'000'000;
constexpr unsigned kRounds = 9;
constexpr unsigned kFewRounds = 3;
constexpr double kSeconds = 600;

constexpr const char* kBerth = "berth";
const Value kNoEngine;

struct Operation {
    const char* name;
    double TimerCosts::* cost_ns;
};
constexpr Operation kOperations[] = {
    {"schedule", &TimerCosts::schedule_ns},
    {"cancel", &TimerCosts::cancel_ns},
    {"rearm", &TimerCosts::rearm_ns},
    {"fire", &TimerCosts::fire_ns},
};

using CostsByProgram = std::map<std::string, std::vector<TimerCosts>>;  // index = round

/// Without those that were not built, which are noted.
Result<std::vector<std::string>> choose_programs(const Selection& selection, Reporter& reporter) {
    std::vector<std::string> programs = or_default(selection.programs, timer_programs());
    std::vector<std::string> chosen;
    for (std::string& program : programs) {
        if (std::ranges::find(timer_programs(), program) == timer_programs().end()) {
            return std::unexpected(
                Error(Errc::invalid_argument, "bench timers", program, 0, "no such program"));
        }
        if (is_timer_program_built(program)) {
            chosen.push_back(std::move(program));
        } else {
            reporter.note(program + " is left out: its package was not there when berth was built",
                          !selection.programs.empty());
        }
    }
    return chosen;
}

/// Rounds until there are as many as asked for; as many as the time allows when nobody asked.
class Rounds {
public:
    explicit Rounds(const Selection& selection)
        : count_(selection.repeats.value_or(selection.is_headline ? kFewRounds : kRounds)),
          budget_ns_(selection.repeats && !selection.seconds
                         ? ~std::uint64_t{0}
                         : static_cast<std::uint64_t>(selection.seconds.value_or(kSeconds) * 1e9)) {
    }

    bool go_on(unsigned round) const noexcept {
        const std::uint64_t elapsed_ns = now_ns() - begin_ns_;
        return round == 0 || (round < count_ && elapsed_ns + elapsed_ns / round < budget_ns_);
    }
    double fraction(unsigned round, double part) const noexcept { return (round + part) / count_; }

private:
    unsigned count_;
    std::uint64_t budget_ns_;
    std::uint64_t begin_ns_ = now_ns();
};

Result<CostsByProgram> measure_rounds(const std::vector<std::string>& programs, std::uint32_t count,
                                      std::uint64_t window_ns, const Selection& selection,
                                      Reporter& reporter) {
    CostsByProgram costs;
    std::mt19937_64 random(selection.seed);
    std::vector<std::string> order = programs;
    const Rounds rounds(selection);
    for (unsigned round = 0; rounds.go_on(round); ++round) {
        const TimerPlan plan = make_timer_plan(count, window_ns, random);
        std::ranges::shuffle(order, random);
        double done = 0;
        for (const std::string& program : order) {
            if (reporter.is_interrupted()) {
                return costs;
            }
            reporter.progress(rounds.fraction(round, done++ / static_cast<double>(order.size())),
                              program);
            const auto subject = BERTH_TRY(make_timer_subject(program, count));
            costs[program].push_back(BERTH_TRY(measure_timers(program, *subject, plan)));
        }
    }
    return costs;
}

std::vector<double> costs_of(const std::vector<TimerCosts>& rounds, const Operation& operation) {
    std::vector<double> costs_ns;
    std::ranges::transform(rounds, std::back_inserter(costs_ns), operation.cost_ns);
    return costs_ns;
}

/// The median of the rounds' own ratios to berth; monostate without berth.
Value ratio_to_berth(const std::vector<double>& costs_ns, const std::vector<double>& berth_ns) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < std::min(costs_ns.size(), berth_ns.size()); ++round) {
        if (berth_ns[round] > 0) {
            ratios.push_back(costs_ns[round] / berth_ns[round]);
        }
    }
    return ratios.empty() ? Value() : Value(median(std::move(ratios)));
}

void report(const std::string& program, std::uint32_t count, const std::vector<TimerCosts>& rounds,
            const std::vector<TimerCosts>& berth_rounds, Reporter& reporter) {
    Row row{.bench = "timers", .variables = {}, .figures = {}};
    row.variable("program", program)
        .variable("engine", kNoEngine)
        .variable("timers", std::int64_t{count});
    for (const Operation& operation : kOperations) {
        row.figure(std::string(operation.name) + "_ns", median(costs_of(rounds, operation)));
    }
    for (const Operation& operation : kOperations) {
        row.figure(std::string(operation.name) + "_ratio_to_berth",
                   ratio_to_berth(costs_of(rounds, operation), costs_of(berth_rounds, operation)));
    }
    double greatest_percent = 0;
    for (const Operation& operation : kOperations) {
        const double percent = spread_percent(costs_of(rounds, operation));
        row.figure(std::string(operation.name) + "_spread_percent", percent);
        greatest_percent = std::max(greatest_percent, percent);
    }
    row.figure("spread_percent", greatest_percent)
        .figure("rounds", static_cast<std::int64_t>(rounds.size()));
    reporter.row(std::move(row));
}

}  // namespace

Result<void> run_timers_of(std::uint32_t count, std::uint64_t window_ns, const Selection& selection,
                           Reporter& reporter) {
    const auto programs = BERTH_TRY(choose_programs(selection, reporter));
    CostsByProgram costs =
        BERTH_TRY(measure_rounds(programs, count, window_ns, selection, reporter));
    for (const std::string& program : programs) {
        if (!costs[program].empty()) {
            report(program, count, costs[program], costs[kBerth], reporter);
        }
    }
    return {};
}

Result<void> run_timers(const Selection& selection, const Environment&, Reporter& reporter) {
    return run_timers_of(selection.is_headline ? kFewTimers : kTimers, kWindowNs, selection,
                         reporter);
}

}  // namespace berth::bench
