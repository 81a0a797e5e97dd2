// SPDX-License-Identifier: Apache-2.0
// `berth bench wake`: posting to a loop from another thread, one post at a time to a loop that
// sleeps, and as many as it takes.

#include "bench/harness/job_comparison.h"
#include "bench/harness/process_figures.h"
#include "bench/harness/statistics.h"
#include "bench/wake/poster.h"

#include <sys/resource.h>

#include <cmath>
#include <optional>

namespace berth::bench {
namespace {

constexpr double kSeconds = 25;
constexpr double kHeadlineSeconds = 2;

constexpr unsigned kSingleCount = 150;
constexpr std::uint64_t kPauseNs = 50'000;
constexpr unsigned kBurstCount = 50'000;

// ChildReport::values
enum WakeFigure : std::size_t { latency_p50, latency_p99, post_p50 };

std::uint64_t to_ns(const timeval& time) noexcept {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

/// CPU time of the calling thread until now.
struct ThreadTime {
    ThreadTime() noexcept {
        rusage usage{};
        ::getrusage(RUSAGE_THREAD, &usage);
        user_ns = to_ns(usage.ru_utime);
        system_ns = to_ns(usage.ru_stime);
    }

    std::uint64_t cpu_ns = thread_cpu_ns();
    std::uint64_t user_ns = 0;  // by ticks
    std::uint64_t system_ns = 0;
};

Result<void> run_job(const Program& program, Poster& poster, WakeJob job) {
    BERTH_TRY(program.wake(job));
    if (!poster.is_intact()) {
        return std::unexpected(Error(Errc::system, "post", "to a loop", 0,
                                     "not every post arrived once and in order"));
    }
    return {};
}

Result<void> run_single(const Program& program, int posting_cpu, ChildReport& report) {
    Poster poster({.count = kSingleCount, .pause_ns = kPauseNs, .cpu = posting_cpu});
    BERTH_TRY(run_job(program, poster, poster.job()));
    const auto figure = [](std::vector<std::uint64_t>& samples, double q) {
        return static_cast<std::uint64_t>(quantile(samples, q));
    };
    report.values[latency_p50] = figure(poster.latencies_ns(), 0.5);
    report.values[latency_p99] = figure(poster.latencies_ns(), 0.99);
    report.values[post_p50] = figure(poster.post_ns(), 0.5);
    return {};
}

/// The CPU time is that of the loop's thread alone, while it is posted to.
Result<void> run_burst(const Program& program, int posting_cpu, ChildReport& report) {
    Poster poster({.count = kBurstCount, .pause_ns = 0, .cpu = posting_cpu});
    WakeJob job = poster.job();
    std::uint64_t allocations_before = 0;
    std::optional<ThreadTime> before;
    job.start = [&, start = job.start](WakeJob::Post post, void* loop) {
        allocations_before = report.live_allocation_count;
        before.emplace();
        start(post, loop);
    };
    job.join = [&, join = job.join] {
        const ThreadTime after;
        report.cpu_ns = after.cpu_ns - before->cpu_ns;
        report.user_ns = after.user_ns - before->user_ns;
        report.system_ns = after.system_ns - before->system_ns;
        report.allocation_count = report.live_allocation_count - allocations_before;
        join();
    };
    BERTH_TRY(run_job(program, poster, std::move(job)));
    report.real_ns = poster.elapsed_ns();
    return {};
}

/// The system calls that are counted are those of the loop's thread, woken by each post.
Result<JobSlice> run_wake_slice(const Program& program, bool counts) {
    // A child that is bound to its own CPU could not find out the other one.
    const CpuPair cpus = choose_cpus();
    const auto body = [&](ChildReport& report, const Gate& gate) -> Result<void> {
        gate.wait();
        BERTH_TRY(run_single(program, cpus.client, report));
        return counts ? Result<void>{} : run_burst(program, cpus.client, report);
    };
    ChildJob child = BERTH_TRY(ChildJob::start(cpus.server, body));
    JobSlice slice = BERTH_TRY(run_sides(child, nullptr, counts));
    slice.unit_count = counts ? kSingleCount : kBurstCount;
    return slice;
}

Value rounded(const Value& value) {
    const auto* const number = std::get_if<double>(&value);
    return number != nullptr ? Value{std::round(*number)} : Value{};
}

void report(std::span<const Contender> contenders, std::span<const JobResult> results,
            std::size_t index, Reporter& reporter) {
    const JobResult& result = results[index];
    const Value each_ns = result.real_ns.median();
    const auto* const real_ns = std::get_if<double>(&each_ns);
    Row row = contender_row("wake", *contenders[index].program);
    row.figure("p50_ns", rounded(result.values[latency_p50].median()))
        .figure("p99_ns", rounded(result.values[latency_p99].median()))
        .figure("post_ns", rounded(result.values[post_p50].median()))
        .figure("messages_per_second",
                real_ns != nullptr && *real_ns > 0 ? Value{1e9 / *real_ns} : Value{})
        .figure("cpu_ns_per_message", result.cpu_ns.median());
    add_cpu_shares(row, result.cpu_ns.median(), result.user_percent());
    add_common_figures(row, results, contenders, index, "syscalls_per_message",
                       "allocations_per_message");
    reporter.row(std::move(row));
}

}  // namespace

Result<void> run_wake(const Selection& selection, const Environment&, Reporter& reporter) {
    const bool is_short = selection.is_headline;
    const std::vector<Contender> contenders = BERTH_TRY(choose_contenders(
        selection, loop_defaults(is_short),
        [](const Program& program) { return program.wake != nullptr; }, reporter));
    std::mt19937_64 random(selection.seed);
    reporter.progress(0, "posts");
    const Result<std::vector<JobResult>> results = compare_jobs(
        contenders, RoundLimits::from(selection, is_short ? kHeadlineSeconds : kSeconds), random,
        "", run_wake_slice, reporter);
    if (!results) {
        return reporter.is_interrupted() ? Result<void>{} : std::unexpected(results.error());
    }
    for (std::size_t index = 0; index < results->size(); ++index) {
        if (contenders[index].is_wanted && !(*results)[index].cpu_ns.is_empty()) {
            report(contenders, *results, index, reporter);
        }
    }
    return {};
}

}  // namespace berth::bench
