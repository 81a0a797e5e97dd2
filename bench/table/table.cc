// SPDX-License-Identifier: Apache-2.0
// `berth bench table`: what one take and release costs, without any socket, at each occupancy and
// from several threads; and whether every free port is equally likely.
#include "bench/harness/choices.h"
#include "bench/harness/statistics.h"
#include "bench/harness/workload.h"
#include "bench/table/allocators.h"
#include "bench/table/pair_timing.h"
#include "bench/table/uniformity.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

namespace berth::bench {
namespace {

constexpr PortRange kRange = {32768, 60999};

struct Plan {
    std::vector<std::string> allocators;
    std::vector<double> occupancies_percent;
    std::vector<unsigned> threads;
    unsigned rounds = 3;
    std::chrono::nanoseconds round_duration{};
    std::mt19937_64 order;  // of the allocators within a round
};

Result<Plan> make_plan(const Selection& selection, Reporter& reporter) {
    Plan plan;
    plan.allocators = BERTH_TRY(choose_allocators(selection, table_allocators(), reporter));
    const bool is_short = selection.is_headline;
    plan.occupancies_percent = is_short ? std::vector<double>{0, 99.9, 100}
                                        : std::vector<double>{0, 50, 90, 99, 99.9, 100};
    plan.threads = is_short ? std::vector<unsigned>{1} : std::vector<unsigned>{1, 2, 64};
    if (!selection.occupancies_percent.empty()) {
        plan.occupancies_percent = selection.occupancies_percent;
    }
    if (!selection.threads.empty()) {
        plan.threads = selection.threads;
    }
    plan.rounds = selection.repeats.value_or(3);
    const double seconds = selection.seconds.value_or(is_short ? 4 : 30);
    const auto cells = static_cast<double>(plan.allocators.size() * plan.threads.size() *
                                           plan.occupancies_percent.size() * plan.rounds);
    const double each_ns = std::clamp(seconds * 1e9 / cells, 5e6, 1e9);
    plan.round_duration = std::chrono::nanoseconds(static_cast<std::int64_t>(each_ns));
    plan.order.seed(selection.seed);
    return plan;
}

using Subjects = std::map<std::string, std::unique_ptr<Subject>>;

/// One filled subject per allocator; each has chosen its taken ports itself, as in use.
Result<Subjects> fill_subjects(const Plan& plan, double occupancy_percent) {
    const unsigned taken_count = ports_at(occupancy_percent, kRange.size());
    Subjects subjects;
    for (const std::string& allocator : plan.allocators) {
        auto subject = BERTH_TRY(make_subject(allocator, kRange));
        for (unsigned taken = 0; taken < taken_count; ++taken) {
            static_cast<void>(subject->take());
        }
        subjects.emplace(allocator, std::move(subject));
    }
    return subjects;
}

void report(const std::string& allocator, double occupancy_percent, unsigned threads,
            const std::vector<PairTiming>& rounds, Reporter& reporter) {
    std::vector<double> p50;
    std::vector<double> p99;
    std::vector<double> rate;
    double longest = 0;
    PairCount pairs;
    for (const PairTiming& round : rounds) {
        p50.push_back(round.p50_ns);
        p99.push_back(round.p99_ns);
        rate.push_back(round.pairs_per_second);
        longest = std::max(longest, round.max_ns);
        pairs.succeeded += round.pairs.succeeded;
        pairs.failed += round.pairs.failed;
    }
    Row row{.bench = "table", .variables = {}, .figures = {}};
    row.variable("allocator", allocator)
        .variable("occupancy_percent", occupancy_percent)
        .variable("threads", std::int64_t{threads});
    row.figure("p50_ns", median(p50))
        .figure("p99_ns", median(p99))
        .figure("max_ns", longest)
        .figure("operations_per_second", median(rate))
        .figure("succeeded", static_cast<std::int64_t>(pairs.succeeded))
        .figure("failed", static_cast<std::int64_t>(pairs.failed))
        .figure("spread_percent", spread_percent(p50));
    reporter.row(std::move(row));
}

/// All allocators at one occupancy and thread count, in rounds of another order each.
void measure_cells(Plan& plan, Subjects& subjects, double occupancy_percent, unsigned threads,
                   Reporter& reporter) {
    std::map<std::string, std::vector<PairTiming>> timings;
    std::vector<std::string> order = plan.allocators;
    for (unsigned round = 0; round < plan.rounds && !reporter.is_interrupted(); ++round) {
        std::ranges::shuffle(order, plan.order);
        for (const std::string& allocator : order) {
            timings[allocator].push_back(
                time_pairs(*subjects.at(allocator), threads, plan.round_duration));
        }
    }
    for (const std::string& allocator : plan.allocators) {
        if (!timings[allocator].empty()) {
            report(allocator, occupancy_percent, threads, timings[allocator], reporter);
        }
    }
}

Result<void> measure_choice(const std::string& allocator, Reporter& reporter) {
    const auto pattern = uniformity_pattern(kRange.size());
    const auto subject = BERTH_TRY(make_subject(allocator, kRange));
    for (std::uint32_t taken = 0; taken < kRange.size(); ++taken) {
        static_cast<void>(subject->take());
    }
    for (const std::uint32_t index : pattern) {
        subject->release(index);
    }
    DrawLimit limit;
    limit.time = std::chrono::seconds(3);
    const Uniformity result = measure_uniformity(pattern, limit, [&subject] {
        const auto index = subject->take();
        if (index) {
            subject->release(*index);
        }
        return index;
    });
    Row row{.bench = "table", .variables = {}, .figures = {}};
    row.variable("allocator", allocator).variable("pattern", kPatternName);
    row.figure("chi2", result.chi2)
        .figure("chi2_p", result.chi2_p ? Value(*result.chi2_p) : Value())
        .figure("hits_min", static_cast<std::int64_t>(result.hits_min))
        .figure("hits_max", static_cast<std::int64_t>(result.hits_max))
        .figure("draws", static_cast<std::int64_t>(result.draws));
    reporter.row(std::move(row));
    return {};
}

}  // namespace

Result<void> run_table(const Selection& selection, const Environment&, Reporter& reporter) {
    Plan plan = BERTH_TRY(make_plan(selection, reporter));
    const double steps = static_cast<double>(plan.occupancies_percent.size() * plan.threads.size());
    double step = 0;
    for (const double occupancy : plan.occupancies_percent) {
        Subjects subjects = BERTH_TRY(fill_subjects(plan, occupancy));
        for (const unsigned threads : plan.threads) {
            if (reporter.is_interrupted()) {
                return {};
            }
            reporter.progress(step / steps * 0.9, "take and release");
            measure_cells(plan, subjects, occupancy, threads, reporter);
            ++step;
        }
    }
    for (const std::string& allocator : plan.allocators) {
        // With a rest period the oldest resting port comes next on purpose: not a random choice.
        if (allocator == "berth-rest" || reporter.is_interrupted()) {
            continue;
        }
        reporter.progress(0.95, "uniformity");
        BERTH_TRY(measure_choice(allocator, reporter));
    }
    return {};
}

}  // namespace berth::bench
