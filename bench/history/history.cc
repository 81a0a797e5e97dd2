// SPDX-License-Identifier: Apache-2.0
// `berth bench history`: the searches of Linux through time, and the proposals on the way, as
// models in user space under the same load, beside berth's table.
#include "bench/harness/choices.h"
#include "bench/harness/statistics.h"
#include "bench/harness/workload.h"
#include "bench/history/allocators.h"
#include "bench/history/bind_loop.h"
#include "bench/history/models.h"
#include "bench/table/uniformity.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>

namespace berth::bench {
namespace {

using std::chrono::milliseconds;

constexpr PortRange kRange = {32768, 60999};
constexpr std::uint64_t kFailBudgetNs = 60'000'000;

struct Plan {
    std::vector<std::string> allocators;
    std::vector<unsigned> threads;
    unsigned rounds = 3;
    milliseconds duration{600};  // of one round; the slowest searches get up to four times that
    milliseconds draw_time{500};
    std::mt19937_64 order;  // of the allocators within a round
};

Result<Plan> make_plan(const Selection& selection, Reporter& reporter) {
    Plan plan;
    plan.allocators = BERTH_TRY(choose_allocators(selection, history_allocators(), reporter));
    plan.threads = selection.threads;
    if (plan.threads.empty()) {
        plan.threads = {selection.workers.value_or(selection.is_headline ? 16 : 64)};
    }
    if (selection.is_headline) {
        plan.rounds = 2;
        plan.duration = milliseconds(120);
        plan.draw_time = milliseconds(100);
    }
    plan.rounds = selection.repeats.value_or(plan.rounds);
    if (selection.seconds) {
        plan.duration = milliseconds(static_cast<std::int64_t>(*selection.seconds * 1'000));
    }
    plan.order.seed(selection.seed);
    return plan;
}

/// What the rounds of one allocator at one thread count gave; index = round.
struct Series {
    std::vector<double> fail_ns;
    std::vector<double> binds_per_second;
    std::vector<double> p50_ns;
    std::vector<double> p99_ns;
    double max_ns = 0;
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    std::uint64_t unfinished = 0;

    void add(const LoopResult& loop) {
        binds_per_second.push_back(static_cast<double>(loop.succeeded) / loop.seconds);
        p50_ns.push_back(loop.times.quantile_ns(0.5));
        p99_ns.push_back(loop.times.quantile_ns(0.99));
        max_ns = std::max(max_ns, static_cast<double>(loop.times.max_ns()));
        succeeded += loop.succeeded;
        failed += loop.failed;
        unfinished += loop.unfinished;
    }
};

using SeriesByCell = std::map<std::pair<std::string, unsigned>, Series>;

/// Long enough that every thread finishes a search or two, as far as the plan allows.
milliseconds round_duration(const Plan& plan, unsigned threads, double fail_ns) {
    const unsigned cpus = std::max(1U, std::thread::hardware_concurrency());
    const double turns = std::ceil(static_cast<double>(threads) / cpus);
    const milliseconds wanted(static_cast<std::int64_t>(1.5 * turns * fail_ns / 1e6));
    return std::clamp(wanted, plan.duration, 4 * plan.duration);
}

/// The median time of a bind with every port taken, one thread.
double time_failing(PortModel& model) {
    const std::atomic<bool> is_stopped{false};
    Search search{.random = internal::thread_random(), .is_stopped = is_stopped};
    std::vector<std::uint64_t> times_ns;
    const std::uint64_t end = now_ns() + kFailBudgetNs;
    for (std::uint64_t now = 0; now < end && times_ns.size() < 10'000;) {
        ModelSocket* socket = model.open();
        const std::uint64_t before = now_ns();
        static_cast<void>(model.bind(*socket, search));
        now = now_ns();
        times_ns.push_back(now - before);
        model.close(socket);
    }
    return quantile(times_ns, 0.5);
}

Result<void> run_round(const Plan& plan, const std::string& allocator, unsigned threads,
                       Series& series) {
    const auto model = BERTH_TRY(make_port_model(allocator, kRange));
    const ModelThread thread(*model);
    const auto sockets = model->fill();
    series.fail_ns.push_back(time_failing(*model));
    LoopResult loop;
    const milliseconds duration = round_duration(plan, threads, series.fail_ns.back());
    const LoopOptions options{.threads = threads, .warm_up = duration / 8, .duration = duration};
    run_bind_loop(*model, sockets, options, loop);
    series.add(loop);
    return {};
}

Result<Uniformity> measure_choice(const std::string& allocator, milliseconds draw_time) {
    const auto model = BERTH_TRY(make_port_model(allocator, kRange));
    const ModelThread thread(*model);
    const auto pattern = uniformity_pattern(kRange.size());
    std::vector<ModelSocket*> kept;
    for (ModelSocket* socket : model->fill()) {
        const auto index = static_cast<std::uint32_t>(socket->port - kRange.first);
        if (std::ranges::binary_search(pattern, index)) {
            model->close(socket);
        } else {
            kept.push_back(socket);
        }
    }
    const std::atomic<bool> is_stopped{false};
    Search search{.random = internal::thread_random(), .is_stopped = is_stopped};
    DrawLimit limit;
    limit.time = draw_time;
    const auto draw = [&]() -> std::optional<std::uint32_t> {
        ModelSocket* socket = model->open();
        const bool is_bound = model->bind(*socket, search);
        const auto index = static_cast<std::uint32_t>(socket->port - kRange.first);
        model->close(socket);
        return is_bound ? std::optional(index) : std::nullopt;
    };
    const Uniformity result = measure_uniformity(pattern, limit, draw);
    std::ranges::for_each(kept, [&model](ModelSocket* socket) { model->close(socket); });
    return result;
}

void report(const std::string& allocator, unsigned threads, const Series& series,
            const Uniformity& choice, Reporter& reporter) {
    Row row{.bench = "history", .variables = {}, .figures = {}};
    row.variable("allocator", allocator).variable("threads", std::int64_t{threads});
    row.figure("binds_per_second", median(series.binds_per_second))
        .figure("p50_ns", median(series.p50_ns))
        .figure("p99_ns", median(series.p99_ns))
        .figure("max_ns", series.max_ns)
        .figure("fail_ns", median(series.fail_ns))
        .figure("chi2_p", choice.chi2_p ? Value(*choice.chi2_p) : Value())
        .figure("draws", static_cast<std::int64_t>(choice.draws))
        .figure("succeeded", static_cast<std::int64_t>(series.succeeded))
        .figure("failed", static_cast<std::int64_t>(series.failed))
        .figure("unfinished", static_cast<std::int64_t>(series.unfinished))
        .figure("spread_percent", spread_percent(series.binds_per_second));
    reporter.row(std::move(row));
}

/// All cells, round by round; stops early when interrupted.
Result<SeriesByCell> measure_rounds(Plan& plan, Reporter& reporter) {
    SeriesByCell cells;
    const auto step_count =
        static_cast<double>(plan.rounds * plan.threads.size() * plan.allocators.size());
    double step = 0;
    std::vector<std::string> order = plan.allocators;
    for (unsigned round = 0; round < plan.rounds; ++round) {
        std::ranges::shuffle(order, plan.order);
        for (const unsigned threads : plan.threads) {
            for (const std::string& allocator : order) {
                if (reporter.is_interrupted()) {
                    return cells;
                }
                reporter.progress(step++ / step_count * 0.9, allocator);
                BERTH_TRY(run_round(plan, allocator, threads, cells[{allocator, threads}]));
            }
        }
    }
    return cells;
}

}  // namespace

Result<void> run_history(const Selection& selection, const Environment&, Reporter& reporter) {
    Plan plan = BERTH_TRY(make_plan(selection, reporter));
    const SeriesByCell cells = BERTH_TRY(measure_rounds(plan, reporter));
    for (const std::string& allocator : plan.allocators) {
        Uniformity choice;
        if (!reporter.is_interrupted()) {
            reporter.progress(0.95, "uniformity");
            choice = BERTH_TRY(measure_choice(allocator, plan.draw_time));
        }
        for (const unsigned threads : plan.threads) {
            if (const auto cell = cells.find({allocator, threads}); cell != cells.end()) {
                report(allocator, threads, cell->second, choice, reporter);
            }
        }
    }
    return {};
}

}  // namespace berth::bench
