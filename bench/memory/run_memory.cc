// SPDX-License-Identifier: Apache-2.0
// `berth bench memory`: what an idle connection takes of a server's own memory. The kernel's, for
// the socket and for the engine's registration, is not in it.

#include "bench/echo/echo_comparison.h"
#include "bench/harness/choices.h"

#include <algorithm>
#include <array>

namespace berth::bench {
namespace {

constexpr std::array<unsigned, 2> kConnections = {1'000, 8'000};
constexpr std::array<unsigned, 1> kHeadlineConnections = {1'000};

struct Memory {
    std::int64_t private_kib = 0;
    std::optional<std::int64_t> peak_rss_kib;
};

/// With so many connections, each of which has had one message.
Result<Memory> measure(const Program& program, unsigned connections, const Selection& selection,
                       const Environment& environment) {
    const EchoScene scene = {
        .cpus = choose_cpus(), .connections = connections, .active = 1, .seed = selection.seed};
    const EchoPair pair = BERTH_TRY(EchoPair::start(program, scene, environment));
    const std::optional<std::int64_t> size = private_memory_kib(pair.server());
    if (!size) {
        return std::unexpected(Error(Errc::unsupported, "read", "/proc/<pid>/smaps_rollup", 0,
                                     "the kernel does not tell a process's own memory"));
    }
    return Memory{*size, process_peak_rss_kib(pair.server())};
}

Result<Row> measure_row(const Program& program, unsigned connections, const Selection& selection,
                        const Environment& environment) {
    const Memory one = BERTH_TRY(measure(program, 1, selection, environment));
    const Memory many = BERTH_TRY(measure(program, connections, selection, environment));
    const double grown_kib = static_cast<double>(many.private_kib - one.private_kib);
    Row row = contender_row("memory", program);
    row.variable("connections", std::int64_t{connections});
    row.figure("bytes_per_connection", std::max(0.0, grown_kib) * 1'024.0 / connections)
        .figure("private_kib", many.private_kib)
        .figure("peak_rss_kib", to_value(many.peak_rss_kib));
    return row;
}

}  // namespace

Result<void> run_memory(const Selection& selection, const Environment& environment,
                        Reporter& reporter) {
    const bool is_short = selection.is_headline;
    const std::vector<Contender> contenders = BERTH_TRY(choose_contenders(
        selection, loop_defaults(is_short),
        [](const Program& program) { return program.echo != nullptr; }, reporter));
    const std::vector<unsigned> counts = possible_connections(
        or_default(selection.connections, is_short ? std::span<const unsigned>(kHeadlineConnections)
                                                   : std::span<const unsigned>(kConnections)),
        0, !selection.connections.empty(), environment, reporter);
    double done = 0;
    for (const unsigned count : counts) {
        for (const Contender& contender : contenders) {
            if (!contender.is_wanted || reporter.is_interrupted()) {
                continue;
            }
            reporter.progress(done++ / static_cast<double>(counts.size() * contenders.size()),
                              name_of(*contender.program));
            Result<Row> row = measure_row(*contender.program, count, selection, environment);
            if (row) {
                reporter.row(std::move(*row));
            } else if (row.error().code() != Errc::interrupted) {
                reporter.note(
                    name_of(*contender.program) + " is left out: " + row.error().message(), true);
            }
        }
    }
    return {};
}

}  // namespace berth::bench
