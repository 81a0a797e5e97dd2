// SPDX-License-Identifier: Apache-2.0
// `berth bench churn`: connections that open and close at once. A client's, with ports from the
// kernel and from berth's table while more and more of the range is taken; and a server's.

#include "bench/churn/accept_slice.h"
#include "bench/churn/connect_slice.h"
#include "bench/connect/connection_filler.h"
#include "bench/connect/destinations.h"
#include "bench/harness/choices.h"
#include "bench/harness/environment.h"
#include "bench/harness/job_comparison.h"
#include "bench/harness/process_figures.h"

#include <algorithm>
#include <array>
#include <map>

namespace berth::bench {
namespace {

constexpr std::array<double, 3> kOccupancies = {0, 60, 99.9};
constexpr double kSeconds = 15;  // for each combination
constexpr std::array<double, 1> kHeadlineOccupancies = {60};
constexpr double kHeadlineSeconds = 2;

constexpr double kSliceNs = 30e6;
constexpr unsigned kFirstCount = 4 * kParallelConnects;
constexpr unsigned kMostConnections = 2'000;

/// How many connections of a program make a slice of the usual length, as its first slice shows.
class SliceCounts {
public:
    unsigned count_for(const Program& program) const {
        const auto known = counts_.find(&program);
        return known == counts_.end() ? kFirstCount : known->second;
    }
    void learn(const Program& program, const JobSlice& slice) {
        const double each_ns = static_cast<double>(slice.report.real_ns) / slice.unit_count;
        const double wanted = kSliceNs / std::max(each_ns, 1.0);
        counts_.try_emplace(&program, static_cast<unsigned>(
                                          std::clamp(wanted, static_cast<double>(kParallelConnects),
                                                     static_cast<double>(kMostConnections))));
    }

private:
    std::map<const Program*, unsigned> counts_;
};

struct Variant {
    std::string_view side;   // "connect", "accept"
    std::string_view ports;  // "kernel", "berth"
    double occupancy = 0;
};

class ChurnBench {
public:
    ChurnBench(const Selection& selection, const Environment& environment, Reporter& reporter)
        : selection_(selection),
          environment_(environment),
          reporter_(reporter),
          random_(selection.seed),
          limits_(
              RoundLimits::from(selection, selection.is_headline ? kHeadlineSeconds : kSeconds)) {}

    Result<void> run() {
        BERTH_TRY(run_accepting());
        return run_connecting();
    }

private:
    Result<std::vector<Contender>> contenders(bool (*can_do)(const Program&)) {
        return choose_contenders(selection_, loop_defaults(selection_.is_headline), can_do,
                                 reporter_);
    }

    Result<void> run_accepting() {
        const auto programs =
            BERTH_TRY(contenders([](const Program& program) { return program.echo != nullptr; }));
        return compare(programs, {"accept", "kernel", 0},
                       [this](const Program& program, unsigned count, bool counts) {
                           return run_accept_slice(program, count, environment_, counts);
                       });
    }

    Result<void> run_connecting() {
        const auto programs =
            BERTH_TRY(contenders([](const Program& program) { return program.churn != nullptr; }));
        const std::vector<double> occupancies = choose_occupancies(
            selection_,
            selection_.is_headline ? std::span<const double>(kHeadlineOccupancies)
                                   : std::span<const double>(kOccupancies),
            environment_, reporter_);
        const Destinations server = BERTH_TRY(Destinations::start(1, Family::ipv4, environment_));
        ConnectionFiller filler(environment_, FillOrder::as_connect, server.addresses(),
                                selection_.seed);
        for (const double occupancy : occupancies) {
            BERTH_TRY(filler.fill_to(ports_at(occupancy, environment_.range.size())));
            for (const std::string_view ports : {"kernel", "berth"}) {
                BERTH_TRY(compare(
                    programs, {"connect", ports, occupancy},
                    [&](const Program& program, unsigned count, bool counts) {
                        return run_connect_slice(
                            program, {server.addresses().front(), ports == "berth", count}, counts);
                    }));
            }
        }
        return {};
    }

    template <class RunSlice>
    Result<void> compare(const std::vector<Contender>& contenders, const Variant& variant,
                         RunSlice run_slice) {
        if (reporter_.is_interrupted()) {
            return {};
        }
        const std::string what = std::string(variant.side) + ", ports of " +
                                 std::string(variant.ports) + ", " +
                                 percent_text(variant.occupancy);
        reporter_.progress(done_++ / 8, what);
        SliceCounts counts_of;
        const std::vector<JobResult> results = BERTH_TRY(compare_jobs(
            contenders, limits_, random_, " (" + what + ")",
            [&](const Program& program, bool counts) {
                Result<JobSlice> slice = run_slice(program, counts_of.count_for(program), counts);
                if (slice) {
                    counts_of.learn(program, *slice);
                }
                return slice;
            },
            reporter_));
        for (std::size_t index = 0; index < results.size(); ++index) {
            if (contenders[index].is_wanted && !results[index].cpu_ns.is_empty()) {
                report(contenders, variant, results, index);
            }
        }
        return {};
    }

    void report(std::span<const Contender> contenders, const Variant& variant,
                std::span<const JobResult> results, std::size_t index) {
        const JobResult& result = results[index];
        const Value each_ns = result.real_ns.median();
        const auto* const real_ns = std::get_if<double>(&each_ns);
        Row row = contender_row("churn", *contenders[index].program);
        row.variable("side", std::string(variant.side))
            .variable("ports", std::string(variant.ports))
            .variable("occupancy_percent", variant.occupancy);
        row.figure("cpu_ns_per_connection", result.cpu_ns.median());
        add_cpu_shares(row, result.cpu_ns.median(), result.user_percent());
        row.figure("connections_per_second",
                   real_ns != nullptr && *real_ns > 0 ? Value{1e9 / *real_ns} : Value{})
            .figure("failed", variant.side == "connect" ? result.values[1].median() : Value{});
        add_common_figures(row, results, contenders, index, "syscalls_per_connection",
                           "allocations_per_connection");
        reporter_.row(std::move(row));
    }

    const Selection& selection_;
    const Environment& environment_;
    Reporter& reporter_;
    std::mt19937_64 random_;
    RoundLimits limits_;
    double done_ = 0;
};

}  // namespace

Result<void> run_churn(const Selection& selection, const Environment& environment,
                       Reporter& reporter) {
    const Result<void> done = ChurnBench(selection, environment, reporter).run();
    // Ctrl-C ends the wait for a process: what was measured before it stands.
    return reporter.is_interrupted() ? Result<void>{} : done;
}

}  // namespace berth::bench
