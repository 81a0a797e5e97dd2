// SPDX-License-Identifier: Apache-2.0
// `berth bench transfer`: the benchmark of 2009, 100,000 KiB from a server to a client that reads
// them through its loop, over one connection and over many; and what finding a descriptor's entry
// in poll's array costs.

#include "bench/echo/echo_comparison.h"
#include "bench/harness/choices.h"
#include "bench/harness/job_comparison.h"
#include "bench/transfer/transfer_slice.h"

namespace berth::bench {
namespace {

constexpr unsigned kConnections[] = {1, 100, 900};
constexpr unsigned kArrayConnections[] = {1, 100, 1'000, 9'000};
constexpr double kSeconds = 12;  // for each number of connections

constexpr unsigned kHeadlineConnections[] = {1};
constexpr double kHeadlineSeconds = 3;

struct Cell {
    std::vector<Contender> contenders;
    unsigned connections;
};

bool can_transfer(const Program& program) { return program.transfer != nullptr; }

ContenderDefaults array_defaults() { return {{"raw"}, {"poll", "poll-linear", "poll-sorted"}}; }

Result<std::vector<Cell>> make_cells(const Selection& selection, const Environment& environment,
                                     Reporter& reporter) {
    const bool is_short = selection.is_headline;
    const bool were_named = !selection.connections.empty();
    const auto counts = [&](std::span<const unsigned> usual) {
        return possible_connections(or_default(selection.connections, usual), 0, were_named,
                                    environment, reporter);
    };
    std::vector<Cell> cells;
    // With what the mail of 2009 has compared.
    const ContenderDefaults defaults =
        loop_defaults(is_short, {"select", "poll", "epoll", "io_uring"});
    const std::vector<Contender> contenders =
        BERTH_TRY(choose_contenders(selection, defaults, can_transfer, reporter));
    for (const unsigned count :
         counts(is_short ? std::span<const unsigned>(kHeadlineConnections) : kConnections)) {
        cells.push_back({contenders, count});
    }
    // The question of the arrays has numbers of its own, unless somebody asks for something else.
    if (!is_short && !were_named && selection.programs.empty() && selection.engines.empty()) {
        const std::vector<Contender> arrays =
            BERTH_TRY(choose_contenders(selection, array_defaults(), can_transfer, reporter));
        for (const unsigned count : counts(kArrayConnections)) {
            cells.push_back({arrays, count});
        }
    }
    return cells;
}

double mean(double sum, const JobResult& result) {
    return result.unit_count > 0 ? sum / result.unit_count : 0;
}

void report(const Cell& cell, std::span<const Contender> contenders,
            std::span<const JobResult> results, std::size_t index, Reporter& reporter) {
    const JobResult& result = results[index];
    const JobResult& blocking = results.back();
    Row row = contender_row("transfer", *contenders[index].program);
    row.variable("connections", std::int64_t{cell.connections});
    row.figure("real_ms", to_ms(result.real_ns.median()))
        .figure("cpu_ms", to_ms(result.cpu_ns.median()))
        .figure("user_ms", mean(result.user_ns, result) / 1e6)
        .figure("system_ms", mean(result.system_ns, result) / 1e6)
        .figure("loop_ms", to_ms(result.cpu_ns.excess_over(blocking.cpu_ns)));
    add_common_figures(row, results, contenders, index, "syscalls", "allocations");
    reporter.row(std::move(row));
}

Result<void> run_cell(const Cell& cell, const Selection& selection, const Environment& environment,
                      Reporter& reporter, std::mt19937_64& random) {
    std::vector<Contender> contenders = cell.contenders;
    contenders.push_back({&blocking_reader(), false});
    const RoundLimits limits =
        RoundLimits::from(selection, selection.is_headline ? kHeadlineSeconds : kSeconds);
    const std::vector<JobResult> results = BERTH_TRY(compare_jobs(
        contenders, limits, random, " at " + std::to_string(cell.connections) + " connections",
        [&](const Program& program, bool counts) {
            return run_transfer_slice(program, cell.connections, environment, counts);
        },
        reporter));
    for (std::size_t index = 0; index < results.size(); ++index) {
        if (contenders[index].is_wanted && !results[index].cpu_ns.is_empty()) {
            report(cell, contenders, results, index, reporter);
        }
    }
    return {};
}

}  // namespace

Result<void> run_transfer(const Selection& selection, const Environment& environment,
                          Reporter& reporter) {
    const std::vector<Cell> cells = BERTH_TRY(make_cells(selection, environment, reporter));
    std::mt19937_64 random(selection.seed);
    double done = 0;
    for (const Cell& cell : cells) {
        reporter.progress(done++ / static_cast<double>(cells.size()),
                          std::to_string(cell.connections) + " connections");
        const Result<void> ran = run_cell(cell, selection, environment, reporter, random);
        if (reporter.is_interrupted()) {
            return {};
        }
        BERTH_TRY(ran);
    }
    return {};
}

}  // namespace berth::bench
