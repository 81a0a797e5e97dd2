// SPDX-License-Identifier: Apache-2.0
// CSV as in RFC 4180: one table for all benches, with a column for each key that any row has and
// the host's facts at the end of each line, so that files of several hosts can be joined.
#include "cli/output/report.h"
#include "cli/output/row_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace berth::cli {
namespace {

std::string quoted(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
        return std::string(text);
    }
    std::string result = "\"";
    for (const char character : text) {
        result += character == '"' ? "\"\"" : std::string(1, character);
    }
    return result + '"';
}

std::string to_csv(const bench::Value* value) {
    if (value == nullptr) {
        return "";
    }
    if (const auto* text = std::get_if<std::string>(value)) {
        return quoted(*text);
    }
    const std::optional<double> number = number_of(*value);
    if (!number || !std::isfinite(*number)) {
        return "";
    }
    const auto* integer = std::get_if<std::int64_t>(value);
    return integer != nullptr ? fmt::format("{}", *integer) : fmt::format("{:.10g}", *number);
}

class CsvWriter : public ReportWriter {
public:
    CsvWriter(std::ostream& out, HostFacts host) : out_(out), host_(std::move(host)) {}

    void row(const bench::Row& row) override {
        for (const auto& [key, value] : row.variables) {
            add_column(variables_, key);
        }
        for (const auto& [key, value] : row.figures) {
            add_column(figures_, key);
        }
        rows_.push_back(row);
    }
    void end_bench() override {}
    void finish(const Closing&) override {
        std::vector<std::string> columns = variables_;
        columns.insert(columns.end(), figures_.begin(), figures_.end());
        out_ << "bench";
        for (const std::string& column : columns) {
            out_ << ',' << quoted(column);
        }
        out_ << ",kernel,cpus,port_range,version,seed,started,namespace\n";
        const std::string host_cells = fmt::format(",{},{},{},{},{},{},{}\n", quoted(host_.kernel),
                                                   host_.cpus, host_.port_range, host_.version,
                                                   host_.seed, host_.started, host_.isolation);
        for (const bench::Row& row : rows_) {
            out_ << quoted(row.bench);
            for (const std::string& column : columns) {
                out_ << ',' << to_csv(find_value(row, column));
            }
            out_ << host_cells;
        }
    }

private:
    static void add_column(std::vector<std::string>& columns, const std::string& key) {
        if (std::ranges::find(columns, key) == columns.end()) {
            columns.push_back(key);
        }
    }

    std::ostream& out_;
    HostFacts host_;
    std::vector<std::string> variables_;
    std::vector<std::string> figures_;
    std::vector<bench::Row> rows_;
};

}  // namespace

std::unique_ptr<ReportWriter> make_csv_writer(std::ostream& out, HostFacts host) {
    return std::make_unique<CsvWriter>(out, std::move(host));
}

}  // namespace berth::cli
