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

// What a server takes hardly differs from round to round, and a round of 8,000 connections takes
// each program up to half a second.
constexpr unsigned kMostRounds = 9;
constexpr double kSeconds = 30;  // for each number of connections
constexpr double kHeadlineSeconds = 2;

struct Memory {
    std::int64_t private_kib = 0;
    std::optional<std::int64_t> peak_rss_kib;
};

/// Of a server with so many connections, each of which has had one message.
Result<Memory> measure(const Program& program, unsigned connections, std::uint64_t seed,
                       const Environment& environment) {
    const EchoScene scene = {
        .cpus = choose_cpus(), .connections = connections, .active = 1, .seed = seed};
    const EchoPair pair = BERTH_TRY(EchoPair::start(program, scene, environment));
    const std::optional<std::int64_t> size = private_memory_kib(pair.server());
    if (!size) {
        return std::unexpected(Error(Errc::unsupported, "read", "/proc/<pid>/smaps_rollup", 0,
                                     "the kernel does not tell a process's own memory"));
    }
    return Memory{*size, process_peak_rss_kib(pair.server())};
}

/// What the rounds of one program brought.
struct Figures {
    SliceSeries bytes_per_connection;
    SliceSeries private_kib;
    std::optional<std::int64_t> peak_rss_kib;
    bool is_out = false;
};

/// The programs with one number of connections.
class MemoryComparison {
public:
    MemoryComparison(std::span<const Contender> contenders, unsigned connections,
                     const Selection& selection, const Environment& environment, Reporter& reporter)
        : contenders_(contenders),
          connections_(connections),
          selection_(selection),
          environment_(environment),
          reporter_(reporter),
          figures_(contenders.size()) {}

    Result<void> run(std::mt19937_64& random) {
        RoundLimits limits =
            RoundLimits::from(selection_, selection_.is_headline ? kHeadlineSeconds : kSeconds);
        if (!selection_.repeats) {
            limits.most_count = kMostRounds;
        }
        return run_rounds(
            contenders_.size(), limits, random, reporter_,
            [this](std::size_t index, std::size_t round) { return run_slice(index, round); });
    }

    void report() const {
        for (std::size_t index = 0; index < contenders_.size(); ++index) {
            if (contenders_[index].is_wanted && !figures_[index].is_out &&
                !figures_[index].private_kib.is_empty()) {
                report(*contenders_[index].program, figures_[index]);
            }
        }
    }

private:
    Result<void> run_slice(std::size_t index, std::size_t round) {
        Figures& figures = figures_[index];
        if (figures.is_out || !contenders_[index].is_wanted || reporter_.is_interrupted()) {
            return {};
        }
        const Result<void> measured = add_round(figures, *contenders_[index].program, round);
        if (measured || measured.error().code() == Errc::interrupted) {
            return measured;
        }
        figures.is_out = true;
        note_left_out(contenders_[index], "at " + std::to_string(connections_) + " connections",
                      measured.error(), reporter_);
        return {};
    }

    Result<void> add_round(Figures& figures, const Program& program, std::size_t round) const {
        const Memory one = BERTH_TRY(measure(program, 1, selection_.seed, environment_));
        const Memory many =
            BERTH_TRY(measure(program, connections_, selection_.seed, environment_));
        const auto grown_kib = static_cast<double>(many.private_kib - one.private_kib);
        figures.bytes_per_connection.set(round, std::max(0.0, grown_kib) * 1'024.0 / connections_);
        figures.private_kib.set(round, static_cast<double>(many.private_kib));
        figures.peak_rss_kib = std::max(figures.peak_rss_kib, many.peak_rss_kib);
        return {};
    }

    void report(const Program& program, const Figures& figures) const {
        Row row = contender_row("memory", program);
        row.variable("connections", std::int64_t{connections_});
        row.figure("bytes_per_connection", figures.bytes_per_connection.median())
            .figure("private_kib", figures.private_kib.median())
            .figure("spread_percent", figures.bytes_per_connection.spread_percent())
            .figure("rounds", static_cast<std::int64_t>(figures.private_kib.count()))
            .figure("peak_rss_kib", to_value(figures.peak_rss_kib));
        reporter_.row(std::move(row));
    }

    std::span<const Contender> contenders_;
    unsigned connections_;
    const Selection& selection_;
    const Environment& environment_;
    Reporter& reporter_;
    std::vector<Figures> figures_;  // index = contender
};

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
    std::mt19937_64 random(selection.seed);
    double done = 0;
    for (const unsigned count : counts) {
        reporter.progress(done++ / static_cast<double>(counts.size()),
                          std::to_string(count) + " connections");
        MemoryComparison comparison(contenders, count, selection, environment, reporter);
        const Result<void> ran = comparison.run(random);
        if (!ran && !reporter.is_interrupted()) {
            return ran;
        }
        comparison.report();
    }
    return {};
}

}  // namespace berth::bench
