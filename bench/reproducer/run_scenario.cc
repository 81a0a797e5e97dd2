// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/run_scenario.h"

#include "bench/harness/environment.h"
#include "bench/harness/statistics.h"
#include "bench/reproducer/crew.h"
#include "bench/reproducer/holder.h"
#include "bench/reproducer/shared_area.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace berth::bench {
namespace {

/// A window lasts longer than it should until a slow probe has told enough, but not forever.
constexpr double kPatienceSeconds = 15;

class Run {
public:
    Run(const Scenario& scenario, const Environment& environment, Probe& probe,
        const Reporter& reporter, SharedArea area, std::uint64_t seed)
        : scenario_(scenario),
          environment_(environment),
          probe_(probe),
          reporter_(reporter),
          area_(std::move(area)),
          seed_(seed),
          crew_(scenario, environment, area_, seed) {}

    Result<std::optional<Measurement>> measure(const RunTimes& times);

private:
    Result<void> hold();
    Result<Frames> observe(double seconds);
    Result<void> measure_crew(const RunTimes& times, Measurement& result);
    void add_counters(Measurement& result) const;
    bool is_interrupted() const { return reporter_.is_interrupted(); }

    const Scenario& scenario_;
    const Environment& environment_;
    Probe& probe_;
    const Reporter& reporter_;
    SharedArea area_;
    std::uint64_t seed_;
    Holder holder_;
    Crew crew_;  // ends before the holder and the shared memory
};

Result<void> Run::hold() {
    if (scenario_.is_spin() || scenario_.held_port_count == 0) {
        return {};
    }
    const Holder::Options options{.protocol = scenario_.protocol,
                                  .family = scenario_.family,
                                  .port_count = scenario_.held_port_count,
                                  .seed = seed_};
    holder_ = BERTH_TRY(Holder::start(environment_, options, area_));
    return {};
}

/// One window of the probe; ends early when the user interrupts.
Result<Frames> Run::observe(double seconds) {
    const std::uint64_t start = now_ns();
    const auto elapsed = [start] { return static_cast<double>(now_ns() - start) / 1e9; };
    probe_.begin_window();
    while (!is_interrupted() && (elapsed() < seconds || (!probe_.has_enough() &&
                                                         elapsed() < seconds + kPatienceSeconds))) {
        const double left_ms = std::clamp((seconds - elapsed()) * 1e3, 1.0, 50.0);
        probe_.wait(std::chrono::milliseconds(static_cast<std::int64_t>(left_ms)));
        BERTH_TRY(crew_.check());
    }
    return probe_.end_window();
}

Result<void> Run::measure_crew(const RunTimes& times, Measurement& result) {
    BERTH_TRY(crew_.start());
    BERTH_TRY(observe(times.warm_up));
    area_.set_phase(Phase::measuring);
    const std::uint64_t start = now_ns();
    result.during = BERTH_TRY(observe(times.during));
    result.seconds = static_cast<double>(now_ns() - start) / 1e9;
    std::uint64_t held = scenario_.held_port_count;
    for (const WorkerCounters& worker : area_.workers()) {
        held += worker.held.load(std::memory_order_relaxed);
    }
    result.occupancy_percent =
        static_cast<double>(held) * 100.0 / static_cast<double>(environment_.range.size());
    return crew_.stop();
}

void Run::add_counters(Measurement& result) const {
    const auto times = std::make_unique<LatencyHistogram>();
    for (const WorkerCounters& worker : area_.workers()) {
        result.succeeded += worker.succeeded.load(std::memory_order_relaxed);
        result.failed += worker.failed.load(std::memory_order_relaxed);
        result.without_socket += worker.without_socket.load(std::memory_order_relaxed);
        times->merge(worker.times);
    }
    result.p50_ns = times->quantile_ns(0.5);
    result.p99_ns = times->quantile_ns(0.99);
    result.max_ns = static_cast<double>(times->max_ns());
    result.peak_rss_kib = crew_.peak_rss_kib();
}

Result<std::optional<Measurement>> Run::measure(const RunTimes& times) {
    Measurement result;
    BERTH_TRY(hold());
    result.before = BERTH_TRY(observe(times.before));
    if (!is_interrupted()) {
        BERTH_TRY(measure_crew(times, result));
    }
    if (is_interrupted()) {
        return std::optional<Measurement>();
    }
    result.after = BERTH_TRY(observe(times.after));
    add_counters(result);
    return result;
}

}  // namespace

Result<std::optional<Measurement>> run_scenario(const Scenario& scenario, const RunTimes& times,
                                                std::uint64_t seed, const Environment& environment,
                                                Probe& probe, const Reporter& reporter) {
    SharedArea area = BERTH_TRY(SharedArea::create(scenario.workers));
    Run run(scenario, environment, probe, reporter, std::move(area), seed);
    return run.measure(times);
}

}  // namespace berth::bench
