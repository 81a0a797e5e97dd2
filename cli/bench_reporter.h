// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between the workloads and the result: passes rows on, keeps them for the summary, and shows the
// progress on one line of a terminal.

#include "bench/harness/workload.h"
#include "cli/output/report.h"
#include "cli/output/terminal.h"

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

class BenchReporter : public bench::Reporter {
public:
    /// `err` and `writer` must outlive the reporter; `terminal` describes `err`.
    BenchReporter(ReportWriter& writer, std::ostream& err, Terminal terminal)
        : writer_(writer), err_(err), terminal_(terminal) {}

    /// The workload that follows, and its place in the whole: parts `index` of `count`.
    void start_bench(std::string_view name, std::size_t index, std::size_t count);
    void end_bench();

    void row(bench::Row row) override;
    void progress(double fraction, std::string_view what) override;
    void note(std::string_view text, bool is_partial) override;
    bool is_interrupted() const override;

    const std::vector<bench::Row>& rows() const noexcept { return rows_; }
    const std::vector<std::string>& notes() const noexcept { return notes_; }
    bool is_partial() const noexcept { return is_partial_ || is_interrupted(); }

private:
    void clear_line();

    ReportWriter& writer_;
    std::ostream& err_;
    Terminal terminal_;
    std::string bench_;
    std::size_t bench_index_ = 0;
    std::size_t bench_count_ = 1;
    std::vector<bench::Row> rows_;
    std::vector<std::string> notes_;
    bool is_partial_ = false;
    bool has_progress_line_ = false;
};

}  // namespace berth::cli
