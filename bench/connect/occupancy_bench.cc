// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/occupancy_bench.h"

#include "bench/connect/worker_process.h"
#include "bench/harness/choices.h"
#include "bench/harness/series.h"

#include <algorithm>

namespace berth::bench {
namespace {

/// One allocator, measured by one of the workers.
struct Contender {
    std::string allocator;
    WorkerProcess* worker;
    std::size_t index;  // in the worker's list
    Series series;
};

class OccupancyBench {
public:
    OccupancyBench(const ConnectPlan& plan, const Environment& environment, Family family,
                   unsigned destination_count, Reporter& reporter)
        : plan_(plan),
          environment_(environment),
          family_(family),
          destination_count_(destination_count),
          reporter_(reporter) {}

    Result<void> run() {
        for (const WorkerSetup& setup :
             make_setups(plan_, environment_, family_, destination_count_)) {
            workers_.push_back(BERTH_TRY(WorkerProcess::start(setup)));
        }
        for (const double occupancy : plan_.occupancies) {
            if (reporter_.is_interrupted()) {
                break;
            }
            BERTH_TRY(run_occupancy(occupancy));
        }
        return {};
    }

private:
    Result<void> run_occupancy(double occupancy) {
        for (WorkerProcess& worker : workers_) {
            BERTH_TRY(worker.fill_to(ports_at(occupancy, environment_.range.size())));
        }
        std::vector<Contender> contenders = make_contenders();
        const Result<void> done = run_rounds(contenders, occupancy);
        report(contenders, occupancy);
        return done;
    }

    std::vector<Contender> make_contenders() {
        std::vector<Contender> contenders;
        for (WorkerProcess& worker : workers_) {
            const std::vector<std::string>& names = worker.setup().allocators;
            for (std::size_t i = 0; i < names.size(); ++i) {
                contenders.push_back({names[i], &worker, i, {}});
            }
        }
        return contenders;
    }

    Result<void> run_rounds(std::vector<Contender>& contenders, double occupancy) {
        for (unsigned round = 0; round < plan_.repeats && !reporter_.is_interrupted(); ++round) {
            report_progress(occupancy, round);
            for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
                Contender& contender = contenders[(turn + round) % contenders.size()];
                contender.series.add(BERTH_TRY(contender.worker->measure(contender.index)));
            }
        }
        return {};
    }

    void report_progress(double occupancy, unsigned round) {
        const auto place = std::ranges::find(plan_.occupancies, occupancy);
        const auto done = static_cast<double>(place - plan_.occupancies.begin()) +
                          static_cast<double>(round) / plan_.repeats;
        reporter_.progress(
            done / static_cast<double>(plan_.occupancies.size()) / 4,
            "destinations " + std::to_string(destination_count_) + ", " + percent_text(occupancy));
    }

    void report(const std::vector<Contender>& contenders, double occupancy) {
        const Series* floor = find(contenders, "floor");
        const Series* kernel = find(contenders, "kernel");
        for (const std::string& allocator : plan_.allocators) {
            const Series* series = find(contenders, allocator);
            if (series == nullptr) {
                continue;
            }
            Row row{.bench = "connect", .variables = {}, .figures = {}};
            row.variable("protocol", "tcp")
                .variable("family", std::string(to_string(family_)))
                .variable("allocator", allocator)
                .variable("occupancy_percent", occupancy)
                .variable("destinations", std::int64_t{destination_count_});
            series->add_figures(row);
            row.figure("ratio_to_floor", floor ? series->ratio_to(*floor) : Value{})
                .figure("ratio_to_kernel", kernel ? series->ratio_to(*kernel) : Value{});
            reporter_.row(std::move(row));
            note_failures(allocator, *series, occupancy);
        }
    }

    void note_failures(const std::string& allocator, const Series& series, double occupancy) {
        if (occupancy < 100.0 && series.failed_count() > 0) {
            reporter_.note(
                allocator + " at " + percent_text(occupancy) + ": " +
                    std::to_string(series.failed_count()) +
                    " connections failed though ports were free: " + series.first_failure(),
                false);
        }
    }

    /// Null when the allocator was not measured.
    static const Series* find(const std::vector<Contender>& contenders, std::string_view name) {
        const auto found = std::ranges::find(contenders, name, &Contender::allocator);
        return found == contenders.end() || found->series.is_empty() ? nullptr : &found->series;
    }

    const ConnectPlan& plan_;
    const Environment& environment_;
    Family family_;
    unsigned destination_count_;
    Reporter& reporter_;
    std::vector<WorkerProcess> workers_;
};

}  // namespace

Result<void> measure_connect_by_occupancy(const ConnectPlan& plan, const Environment& environment,
                                          Family family, unsigned destination_count,
                                          Reporter& reporter) {
    return OccupancyBench(plan, environment, family, destination_count, reporter).run();
}

}  // namespace berth::bench
