// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/job_comparison.h"

#include "bench/harness/allocation_count.h"
#include "bench/harness/system_call_count.h"

#include <algorithm>

namespace berth::bench {
namespace {

constexpr std::chrono::seconds kGateTimeout{60};
constexpr std::chrono::seconds kJobTimeout{60};

class JobComparison {
public:
    JobComparison(std::span<const Contender> contenders, const std::string& where,
                  const RunJob& run, Reporter& reporter)
        : contenders_(contenders),
          where_(where),
          run_(run),
          reporter_(reporter),
          results_(contenders.size()),
          is_out_(contenders.size()) {}

    /// A first slice of each shows what fails, and warms the machine up.
    Result<void> warm_up() {
        for (std::size_t index = 0; index < contenders_.size(); ++index) {
            if (!reporter_.is_interrupted()) {
                BERTH_TRY(attempt(index, false));
            }
        }
        return {};
    }

    Result<void> run_slice(std::size_t index, std::size_t round) {
        const std::optional<JobSlice> slice = BERTH_TRY(attempt(index, false));
        if (slice) {
            add(results_[index], round, *slice);
        }
        return {};
    }

    Result<void> count_system_calls() {
        for (std::size_t index = 0; index < contenders_.size(); ++index) {
            if (reporter_.is_interrupted()) {
                break;
            }
            const std::optional<JobSlice> slice = BERTH_TRY(attempt(index, true));
            if (slice) {
                note_system_call_counting(slice->system_call_count.has_value(), reporter_);
            }
            if (slice && slice->system_call_count && slice->unit_count > 0) {
                results_[index].system_calls =
                    static_cast<double>(*slice->system_call_count) / slice->unit_count;
            }
        }
        return {};
    }

    std::vector<JobResult> take_results() {
        for (std::size_t index = 0; index < results_.size(); ++index) {
            if (is_out_[index]) {
                results_[index] = {};
            }
        }
        return std::move(results_);
    }

private:
    /// Nothing from a program that is out, or has just failed.
    Result<std::optional<JobSlice>> attempt(std::size_t index, bool counts) {
        if (is_out_[index]) {
            return std::optional<JobSlice>();
        }
        const Program& program = *contenders_[index].program;
        Result<JobSlice> slice = run_(program, counts);
        if (slice) {
            return std::optional(*slice);
        }
        if (slice.error().code() == Errc::interrupted) {
            return std::unexpected(slice.error());
        }
        is_out_[index] = true;
        if (slice.error().code() != Errc::unsupported) {
            reporter_.note(name_of(program) + where_ + " is left out: " + slice.error().message(),
                           true);
        }
        return std::optional<JobSlice>();
    }

    static void add(JobResult& result, std::size_t round, const JobSlice& slice) {
        const ChildReport& report = slice.report;
        if (slice.unit_count > 0) {
            result.cpu_ns.set(round, static_cast<double>(report.cpu_ns) / slice.unit_count);
            result.real_ns.set(round, static_cast<double>(report.real_ns) / slice.unit_count);
        }
        for (std::size_t i = 0; i < report.values.size(); ++i) {
            result.values[i].set(round, static_cast<double>(report.values[i]));
        }
        result.user_ns += static_cast<double>(report.user_ns);
        result.system_ns += static_cast<double>(report.system_ns);
        result.allocation_count += static_cast<double>(report.allocation_count);
        result.unit_count += slice.unit_count;
        result.peak_rss_kib = std::max(result.peak_rss_kib, report.peak_rss_kib);
    }

    std::span<const Contender> contenders_;
    const std::string& where_;
    const RunJob& run_;
    Reporter& reporter_;
    std::vector<JobResult> results_;
    std::vector<bool> is_out_;
};

Value per_unit(double sum, const JobResult& result) {
    return result.unit_count > 0 ? Value{sum / result.unit_count} : Value{};
}

Value ratio(std::span<const JobResult> results, std::size_t index, std::size_t base) {
    return base == kNoContender ? Value{} : results[index].cpu_ns.ratio_to(results[base].cpu_ns);
}

}  // namespace

Result<std::vector<JobResult>> compare_jobs(std::span<const Contender> contenders,
                                            const RoundLimits& limits, std::mt19937_64& random,
                                            const std::string& where, const RunJob& run,
                                            Reporter& reporter) {
    JobComparison comparison(contenders, where, run, reporter);
    BERTH_TRY(comparison.warm_up());
    BERTH_TRY(run_rounds(
        contenders.size(), limits, random, reporter,
        [&](std::size_t index, std::size_t round) { return comparison.run_slice(index, round); }));
    BERTH_TRY(comparison.count_system_calls());
    return comparison.take_results();
}

Result<JobSlice> run_sides(ChildJob& measured, ChildJob* other, bool counts) {
    BERTH_TRY(measured.wait_for_gate(kGateTimeout));
    if (other != nullptr) {
        BERTH_TRY(other->wait_for_gate(kGateTimeout));
    }
    const auto open_gates = [&] {
        measured.open_gate();
        if (other != nullptr) {
            other->open_gate();
        }
    };
    JobSlice slice;
    if (counts) {
        bool is_open = false;
        slice.system_call_count =
            count_system_calls(measured.process(), measured.end_descriptor(), kJobTimeout, [&] {
                open_gates();
                is_open = true;
            });
        if (!is_open) {
            open_gates();
        }
    } else {
        open_gates();
    }
    slice.report = BERTH_TRY(measured.wait(kJobTimeout));
    return slice;
}

Value to_ms(const Value& ns) {
    const auto* const number = std::get_if<double>(&ns);
    return number != nullptr ? Value{*number / 1e6} : Value{};
}

void add_common_figures(Row& row, std::span<const JobResult> results,
                        std::span<const Contender> contenders, std::size_t index,
                        std::string_view system_calls_name, std::string_view allocations_name) {
    const JobResult& result = results[index];
    const References references = references_of(contenders, index);
    row.figure(std::string(system_calls_name), to_value(result.system_calls))
        .figure(std::string(allocations_name),
                counts_allocations() ? per_unit(result.allocation_count, result) : Value{})
        .figure("ratio_to_raw", ratio(results, index, references.raw))
        .figure("ratio_to_epoll", ratio(results, index, references.epoll))
        .figure("spread_percent", result.cpu_ns.spread_percent())
        .figure("rounds", static_cast<std::int64_t>(result.cpu_ns.count()))
        .figure("peak_rss_kib", result.peak_rss_kib);
}

}  // namespace berth::bench
