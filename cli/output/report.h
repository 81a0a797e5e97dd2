// SPDX-License-Identifier: Apache-2.0
#pragma once

// The result of a run of `berth bench`, and the forms it can be written in.

#include "bench/harness/row.h"
#include "cli/output/terminal.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

/// Where and how it was measured; a part of every machine-readable result.
struct HostFacts {
    std::string kernel;  // release, "6.18.4-amd64"
    unsigned cpus = 0;
    std::string port_range;  // "32768-51767"
    std::string version;     // of berth
    std::uint64_t seed = 0;
    std::string started;    // UTC, ISO 8601
    std::string isolation;  // "network", "user+network" or "host"
};

/// What is known only at the end.
struct Closing {
    std::vector<std::string> summary;  // whole sentences
    std::vector<std::string> notes;
    bool is_partial = false;
};

enum class Format : std::uint8_t { text, json, csv, ndjson };

/// Writes a result while it grows. Calls come in this order: row()* end_bench(), repeated;
/// finish().
class ReportWriter {
public:
    virtual ~ReportWriter() = default;
    virtual void row(const bench::Row& row) = 0;
    /// All rows of one bench have been given.
    virtual void end_bench() = 0;
    virtual void finish(const Closing& closing) = 0;
};

/// `out` must outlive the writer; `terminal` describes it.
std::unique_ptr<ReportWriter> make_text_writer(std::ostream& out, const Terminal& terminal,
                                               HostFacts host);
std::unique_ptr<ReportWriter> make_json_writer(std::ostream& out, HostFacts host);
std::unique_ptr<ReportWriter> make_csv_writer(std::ostream& out, HostFacts host);
/// One JSON object a line, each as soon as it is known: the host's first, the summary's last.
std::unique_ptr<ReportWriter> make_ndjson_writer(std::ostream& out, const HostFacts& host);

}  // namespace berth::cli
