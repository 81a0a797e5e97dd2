// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_reporter.h"

#include "cli/interrupt.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::cli {

void BenchReporter::start_bench(std::string_view name, std::size_t index, std::size_t count) {
    bench_ = name;
    bench_index_ = index;
    bench_count_ = count;
    progress(0, "");
}

void BenchReporter::end_bench() {
    clear_line();
    writer_.end_bench();
}

void BenchReporter::row(bench::Row row) {
    clear_line();
    writer_.row(row);
    rows_.push_back(std::move(row));
}

void BenchReporter::progress(double fraction, std::string_view what) {
    if (!terminal_.is_terminal) {
        return;
    }
    constexpr int kBarWidth = 20;
    const double whole = (static_cast<double>(bench_index_) + std::clamp(fraction, 0.0, 1.0)) /
                         static_cast<double>(bench_count_);
    const int filled = static_cast<int>(whole * kBarWidth);
    err_ << fmt::format("\r\033[K[{:=<{}}{:{}}] {:3.0f} %  {}{}{}", "", filled, "",
                        kBarWidth - filled, whole * 100.0, bench_, what.empty() ? "" : ": ", what);
    err_.flush();
    has_progress_line_ = true;
}

void BenchReporter::clear_line() {
    if (has_progress_line_) {
        err_ << "\r\033[K" << std::flush;
        has_progress_line_ = false;
    }
}

void BenchReporter::note(std::string_view text, bool is_partial) {
    clear_line();
    err_ << "berth: " << (bench_.empty() ? "" : bench_ + ": ") << text << '\n';
    notes_.push_back(bench_.empty() ? std::string(text) : fmt::format("{}: {}", bench_, text));
    is_partial_ = is_partial_ || is_partial;
}

bool BenchReporter::is_interrupted() const { return was_interrupted(); }

}  // namespace berth::cli
