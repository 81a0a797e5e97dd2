// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/echo_comparison.h"

#include "bench/echo/echo_runner.h"
#include "bench/harness/loopback.h"

#include <algorithm>

namespace berth::bench {
namespace {

// Sockets of all programs that are alive, on both sides; a few KiB of kernel memory each.
constexpr std::size_t kMostSockets = 200'000;

constexpr unsigned kLatencyRounds = 3;
// The open loop runs at this part of what raw epoll can do, and only where a program can do more.
constexpr double kLoad = 0.5;
constexpr double kHeadroom = 1.1;

/// The programs of one group in one cell.
class GroupRun {
public:
    GroupRun(const EchoPlan& plan, const EchoCell& cell, const Environment& environment,
             Reporter& reporter, std::mt19937_64& random)
        : plan_(plan),
          cell_(cell),
          environment_(environment),
          reporter_(reporter),
          random_(random) {}

    Result<void> run(const std::vector<std::size_t>& members, const RoundLimits& limits) {
        BERTH_TRY(start(members));
        BERTH_TRY(for_each([&](EchoRunner& runner) { return runner.warm_up(plan_.slice); }));
        BERTH_TRY(run_rounds(runners_.size(), limits, random_, reporter_,
                             [&](std::size_t index, std::size_t round) {
                                 return attempt(runners_[index], [&](EchoRunner& runner) {
                                     return runner.run_slice(round, plan_.slice);
                                 });
                             }));
        BERTH_TRY(for_each([](EchoRunner& runner) -> Result<void> {
            runner.read_totals();
            return {};
        }));
        BERTH_TRY(
            for_each([this](EchoRunner& runner) { return runner.count_system_calls(reporter_); }));
        return cell_.has_latencies ? measure_latencies() : Result<void>{};
    }

    /// In the order of the contenders, without those of an earlier group.
    void report(const std::vector<bool>& is_reported) const {
        for (std::size_t index = 0; index < plan_.contenders.size(); ++index) {
            const EchoRunner* const runner = find(index);
            if (runner != nullptr && !is_reported[index]) {
                report(*runner);
            }
        }
    }

private:
    Result<void> start(const std::vector<std::size_t>& members) {
        const EchoScene scene = {.cpus = choose_cpus(),
                                 .connections = cell_.active + cell_.idle,
                                 .active = cell_.active,
                                 .seed = plan_.seed};
        for (const std::size_t member : members) {
            if (reporter_.is_interrupted()) {
                return {};
            }
            const Contender& contender = plan_.contenders[member];
            Result<EchoPair> pair = EchoPair::start(*contender.program, scene, environment_);
            if (pair) {
                runners_.emplace_back(contender, std::move(*pair));
            } else {
                BERTH_TRY(give_up(contender, pair.error()));
            }
        }
        return {};
    }

    /// An error that is one program's own costs only that program.
    Result<void> give_up(const Contender& contender, const Error& error) {
        if (error.code() == Errc::interrupted) {
            return std::unexpected(error);
        }
        note_left_out(contender, "at " + std::to_string(cell_.active + cell_.idle) + " connections",
                      error, reporter_);
        return {};
    }

    template <class Step>
    Result<void> attempt(EchoRunner& runner, Step step) {
        if (!runner.is_alive()) {
            return {};
        }
        const Result<void> done = step(runner);
        if (done) {
            return {};
        }
        runner.drop();
        return give_up(runner.contender(), done.error());
    }

    template <class Step>
    Result<void> for_each(Step step) {
        for (EchoRunner& runner : runners_) {
            if (!reporter_.is_interrupted()) {
                BERTH_TRY(attempt(runner, step));
            }
        }
        return {};
    }

    Result<void> measure_latencies() {
        const EchoRunner* const epoll = find_raw("epoll");
        const Value rate = epoll != nullptr ? epoll->rate().median() : Value{};
        const auto* const reference = std::get_if<double>(&rate);
        if (reference == nullptr) {
            return {};
        }
        const double load = *reference * kLoad;
        const auto can_bear = [load](const EchoRunner& runner) {
            const Value own = runner.rate().median();
            const auto* const number = std::get_if<double>(&own);
            return number != nullptr && *number >= load * kHeadroom;
        };
        for (unsigned round = 0; round < kLatencyRounds; ++round) {
            BERTH_TRY(for_each([&](EchoRunner& runner) {
                return can_bear(runner) ? runner.measure_latencies(load) : Result<void>{};
            }));
        }
        return {};
    }

    void report(const EchoRunner& runner) const {
        const Contender& contender = runner.contender();
        if (!contender.is_wanted || !runner.is_alive() || runner.cost().is_empty()) {
            return;
        }
        Row row = contender_row(plan_.bench, *contender.program);
        row.variable("connections", std::int64_t{cell_.active});
        if (plan_.bench == "idle") {
            row.variable("idle", std::int64_t{cell_.idle});
        }
        const auto index = static_cast<std::size_t>(&contender - plan_.contenders.data());
        const References references = references_of(plan_.contenders, index);
        runner.add_figures(row, find(references.raw), find(references.epoll));
        reporter_.row(std::move(row));
    }

    /// Null when it is not in this group, or could not be started.
    const EchoRunner* find(std::size_t index) const {
        const auto found = std::ranges::find_if(runners_, [&](const EchoRunner& runner) {
            return index != kNoContender && &runner.contender() == &plan_.contenders[index];
        });
        return found == runners_.end() ? nullptr : &*found;
    }

    const EchoRunner* find_raw(std::string_view engine) const {
        const auto found = std::ranges::find_if(runners_, [&](const EchoRunner& runner) {
            return is_raw(*runner.contender().program, engine);
        });
        return found == runners_.end() ? nullptr : &*found;
    }

    const EchoPlan& plan_;
    const EchoCell& cell_;
    const Environment& environment_;
    Reporter& reporter_;
    std::mt19937_64& random_;
    std::vector<EchoRunner> runners_;
};

/// The time for a cell, by the size of the group.
RoundLimits share_of(RoundLimits limits, std::size_t members, std::size_t all) {
    limits.time_limit_ns = limits.time_limit_ns * members / std::max<std::size_t>(all, 1);
    return limits;
}

Result<void> run_cell(const EchoPlan& plan, const EchoCell& cell, const Environment& environment,
                      Reporter& reporter, std::mt19937_64& random) {
    const auto groups = make_groups(plan.contenders, group_capacity(cell.active + cell.idle));
    std::size_t all = 0;
    for (const auto& group : groups) {
        all += group.size();
    }
    std::vector<bool> is_reported(plan.contenders.size());
    for (const auto& group : groups) {
        GroupRun run(plan, cell, environment, reporter, random);
        BERTH_TRY(run.run(group, share_of(plan.limits, group.size(), all)));
        run.report(is_reported);
        for (const std::size_t member : group) {
            is_reported[member] = true;
        }
        if (reporter.is_interrupted()) {
            return {};
        }
    }
    return {};
}

}  // namespace

Result<void> compare_echo_servers(const EchoPlan& plan, const Environment& environment,
                                  Reporter& reporter) {
    std::mt19937_64 random(plan.seed);
    double done = 0;
    for (const EchoCell& cell : plan.cells) {
        if (reporter.is_interrupted()) {
            break;
        }
        reporter.progress(done++ / static_cast<double>(plan.cells.size()),
                          std::to_string(cell.active + cell.idle) + " connections");
        const Result<void> ran = run_cell(plan, cell, environment, reporter, random);
        if (!ran && !reporter.is_interrupted()) {
            return ran;
        }
    }
    return {};
}

std::vector<unsigned> possible_connections(std::vector<unsigned> counts, unsigned beside,
                                           bool were_named, const Environment& environment,
                                           Reporter& reporter) {
    const unsigned most = most_connections(environment);
    const auto is_beyond = [&](unsigned count) { return count + beside > most; };
    for (const unsigned count : counts) {
        if (is_beyond(count)) {
            reporter.note(std::to_string(count + beside) + " connections are left out: at most " +
                              std::to_string(most) + " may be held here",
                          were_named);
        }
    }
    std::erase_if(counts, is_beyond);
    return counts;
}

std::size_t group_capacity(unsigned connections) noexcept {
    return kMostSockets / (2 * std::size_t{connections});
}

}  // namespace berth::bench
