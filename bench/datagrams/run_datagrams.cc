// SPDX-License-Identifier: Apache-2.0
// `berth bench datagrams`: 64-byte datagrams one way, one in each call, in batches, and segmented
// and put together by the kernel; what they cost the side that receives and the one that sends.

#include "bench/datagrams/datagram_slice.h"
#include "bench/harness/job_comparison.h"
#include "bench/harness/process_figures.h"

#include <array>

namespace berth::bench {
namespace {

constexpr double kSeconds = 12;  // for each side and mode
constexpr double kHeadlineSeconds = 1;

struct Mode {
    DatagramMode mode;
    std::string_view name;
    std::uint64_t datagram_count;  // some 20 to 40 ms
};
constexpr std::array<Mode, 3> kModes = {{{DatagramMode::single, "single", 10'000},
                                         {DatagramMode::batched, "batched", 20'000},
                                         {DatagramMode::segmented, "segmented", 150'000}}};

double lost_percent(const JobResult& result) {
    const Value sent = result.values[0].median();
    const Value received = result.values[1].median();
    const auto* const sent_count = std::get_if<double>(&sent);
    const auto* const received_count = std::get_if<double>(&received);
    return sent_count != nullptr && received_count != nullptr && *sent_count > 0
               ? 100.0 * (1.0 - *received_count / *sent_count)
               : 0.0;
}

void report(std::span<const Contender> contenders, std::span<const JobResult> results,
            std::size_t index, std::string_view side, const Mode& mode, Reporter& reporter) {
    const JobResult& result = results[index];
    const Value each_ns = result.real_ns.median();
    const auto* const real_ns = std::get_if<double>(&each_ns);
    Row row = contender_row("datagrams", *contenders[index].program);
    row.variable("side", std::string(side)).variable("mode", std::string(mode.name));
    row.figure("cpu_ns_per_message", result.cpu_ns.median());
    add_cpu_shares(row, result.cpu_ns.median(), result.user_percent());
    row.figure("messages_per_second",
               real_ns != nullptr && *real_ns > 0 ? Value{1e9 / *real_ns} : Value{})
        .figure("lost_percent", lost_percent(result));
    add_common_figures(row, results, contenders, index, "syscalls_per_message",
                       "allocations_per_message");
    reporter.row(std::move(row));
}

Result<void> compare(const std::vector<Contender>& contenders, std::string_view side,
                     const Mode& mode, const RoundLimits& limits, std::mt19937_64& random,
                     Reporter& reporter) {
    const DatagramScene scene = {.mode = mode.mode,
                                 .is_sender = side == "send",
                                 .datagram_size = 64,
                                 .datagram_count = mode.datagram_count};
    const std::vector<JobResult> results = BERTH_TRY(compare_jobs(
        contenders, limits, random, " (" + std::string(side) + ", " + std::string(mode.name) + ")",
        [&](const Program& program, bool counts) {
            return run_datagram_slice(program, scene, counts);
        },
        reporter));
    for (std::size_t index = 0; index < results.size(); ++index) {
        if (contenders[index].is_wanted && !results[index].cpu_ns.is_empty()) {
            report(contenders, results, index, side, mode, reporter);
        }
    }
    return {};
}

}  // namespace

Result<void> run_datagrams(const Selection& selection, const Environment&, Reporter& reporter) {
    const bool is_short = selection.is_headline;
    const std::vector<Contender> contenders = BERTH_TRY(choose_contenders(
        selection, loop_defaults(is_short),
        [](const Program& program) { return program.datagrams != nullptr; }, reporter));
    const RoundLimits limits = RoundLimits::from(selection, is_short ? kHeadlineSeconds : kSeconds);
    std::mt19937_64 random(selection.seed);
    double done = 0;
    for (const std::string_view side : {"receive", "send"}) {
        for (const Mode& mode : kModes) {
            reporter.progress(done++ / 6, std::string(side) + ", " + std::string(mode.name));
            const Result<void> compared = compare(contenders, side, mode, limits, random, reporter);
            if (reporter.is_interrupted()) {
                return {};
            }
            BERTH_TRY(compared);
        }
    }
    return {};
}

}  // namespace berth::bench
