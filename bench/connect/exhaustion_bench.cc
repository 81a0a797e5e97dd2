// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/exhaustion_bench.h"

#include "bench/connect/worker_process.h"
#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>

namespace berth::bench {
namespace {

std::string_view to_string(StoppedBy stopped_by) {
    switch (stopped_by) {
        case StoppedBy::exhaustion:
            return "exhaustion";
        case StoppedBy::time:
            return "time";
        case StoppedBy::limit:
            return "limit";
        case StoppedBy::failure:
            break;
    }
    return "failure";
}

/// The runs of one allocator.
struct Runs {
    std::string allocator;
    std::vector<Exhaustion> results;

    bool is_cut() const {
        return !results.empty() && results.back().stopped_by != StoppedBy::exhaustion;
    }
    template <class Figure>
    std::vector<double> collect(Figure figure) {
        std::vector<double> values;
        for (Exhaustion& result : results) {
            values.push_back(figure(result));
        }
        return values;
    }
};

double total_ms(const Exhaustion& run) { return static_cast<double>(run.total_ns) / 1e6; }

double per_second(const Exhaustion& run) {
    return run.total_ns == 0 ? 0.0
                             : static_cast<double>(run.calls.succeeded_ns.size()) * 1e9 /
                                   static_cast<double>(run.total_ns);
}

/// The median over the runs of one quantile of their calls; not measured without calls.
Value quantile_figure(Runs& runs, std::vector<std::uint64_t> Batch::* calls, double q) {
    std::vector<double> values;
    for (Exhaustion& run : runs.results) {
        if (!(run.calls.*calls).empty()) {
            values.push_back(quantile(run.calls.*calls, q));
        }
    }
    return values.empty() ? Value{} : Value{std::round(median(std::move(values)))};
}

class ExhaustionBench {
public:
    ExhaustionBench(const ConnectPlan& plan, WorkerSetup setup, Reporter& reporter)
        : plan_(plan), setup_(std::move(setup)), reporter_(reporter) {
        for (const std::string& allocator : plan_.allocators) {
            runs_.push_back({allocator, {}});
        }
    }

    Result<void> run() {
        const Result<void> done = run_rounds();
        for (Runs& runs : runs_) {
            if (!runs.results.empty()) {
                report(runs);
            }
        }
        return done;
    }

private:
    /// A run that was cut by the time limit is not repeated: it would take as long again.
    Result<void> run_rounds() {
        for (unsigned round = 0; round < plan_.exhaustion_repeats; ++round) {
            for (std::size_t turn = 0; turn < runs_.size(); ++turn) {
                Runs& runs = runs_[(turn + round) % runs_.size()];
                if (runs.is_cut()) {
                    continue;
                }
                if (reporter_.is_interrupted()) {
                    return {};
                }
                report_progress(round, turn, runs.allocator);
                BERTH_TRY(run_once(runs));
            }
        }
        return {};
    }

    Result<void> run_once(Runs& runs) {
        setup_.allocators = {runs.allocator};
        WorkerProcess worker = BERTH_TRY(WorkerProcess::start(setup_));
        runs.results.push_back(BERTH_TRY(worker.exhaust()));
        return {};
    }

    void report_progress(unsigned round, std::size_t turn, const std::string& allocator) {
        const double in_round = static_cast<double>(turn) / static_cast<double>(runs_.size());
        reporter_.progress(0.25 + 0.75 * (round + in_round) / plan_.exhaustion_repeats,
                           "destinations " + std::to_string(setup_.destination_count) + ", " +
                               allocator + " until no port is left");
    }

    void report(Runs& runs) {
        const Exhaustion& last = runs.results.back();
        Row row{.bench = "connect", .variables = {}, .figures = {}};
        row.variable("protocol", "tcp")
            .variable("family", std::string(berth::to_string(setup_.family)))
            .variable("allocator", runs.allocator)
            .variable("destinations", std::int64_t{setup_.destination_count});
        const auto succeeded = [](const Exhaustion& run) {
            return static_cast<double>(run.calls.succeeded_ns.size());
        };
        row.figure("total_ms", median(runs.collect(total_ms)))
            .figure("succeeded", std::round(median(runs.collect(succeeded))))
            .figure("failed", static_cast<std::int64_t>(last.calls.failed_ns.size()))
            .figure("stopped_by", std::string(to_string(last.stopped_by)))
            .figure("connections_per_second", std::round(median(runs.collect(per_second))))
            .figure("p50_ns", quantile_figure(runs, &Batch::succeeded_ns, 0.5))
            .figure("p99_ns", quantile_figure(runs, &Batch::succeeded_ns, 0.99))
            .figure("max_ns", quantile_figure(runs, &Batch::succeeded_ns, 1.0))
            .figure("failing_p50_ns", quantile_figure(runs, &Batch::failed_ns, 0.5))
            .figure("peak_rss_kib", last.peak_rss_kib)
            .figure("rounds", static_cast<std::int64_t>(runs.results.size()))
            .figure("spread_percent", spread_percent(runs.collect(total_ms)))
            .figure("ratio_to_floor", ratio_to(runs, "floor"))
            .figure("ratio_to_kernel", ratio_to(runs, "kernel"));
        reporter_.row(std::move(row));
        note_cut(runs.allocator, last);
    }

    void note_cut(const std::string& allocator, const Exhaustion& last) {
        if (last.stopped_by == StoppedBy::failure) {
            reporter_.note(allocator + " stopped early: " + last.calls.first_failure, true);
        }
        if (last.stopped_by == StoppedBy::limit) {
            reporter_.note(allocator + " stopped before the host's ports were all taken", true);
        }
    }

    /// Of the time per connection, round by round: explicit binds get fewer connections from the
    /// same ports. Only between runs that both went to the end.
    Value ratio_to(const Runs& runs, std::string_view other_name) const {
        const auto other = std::ranges::find(runs_, other_name, &Runs::allocator);
        if (other == runs_.end() || other->is_cut() || runs.is_cut()) {
            return {};
        }
        std::vector<double> ratios;
        for (std::size_t i = 0; i < std::min(runs.results.size(), other->results.size()); ++i) {
            ratios.push_back(per_second(other->results[i]) / per_second(runs.results[i]));
        }
        return ratios.empty() ? Value{} : Value{median(std::move(ratios))};
    }

    const ConnectPlan& plan_;
    WorkerSetup setup_;
    Reporter& reporter_;
    std::vector<Runs> runs_;
};

}  // namespace

Result<void> measure_connect_until_exhaustion(const ConnectPlan& plan,
                                              const Environment& environment, Family family,
                                              unsigned destination_count, Reporter& reporter) {
    return ExhaustionBench(plan,
                           {.environment = environment,
                            .family = family,
                            .destination_count = destination_count,
                            .order = FillOrder::as_connect,
                            .allocators = {},
                            .seed = plan.seed,
                            .seconds = plan.seconds},
                           reporter)
        .run();
}

}  // namespace berth::bench
