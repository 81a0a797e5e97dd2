// SPDX-License-Identifier: Apache-2.0
#include "cli/output/layout.h"
#include "cli/output/report.h"

namespace berth::cli {
namespace {

class TextWriter : public ReportWriter {
public:
    TextWriter(std::ostream& out, const Terminal& terminal, HostFacts host)
        : out_(out), terminal_(terminal), host_(std::move(host)) {}

    void row(const bench::Row& row) override { rows_.push_back(row); }

    void end_bench() override {
        for (const Section& section : lay_out(rows_, host_)) {
            out_ << (is_first_ ? "" : "\n") << terminal_.bold(section.title) << "\n\n";
            section.grid.print(out_, terminal_);
            is_first_ = false;
        }
        rows_.clear();
        out_.flush();
    }

    void finish(const Closing& closing) override {
        if (!closing.summary.empty()) {
            out_ << '\n';
        }
        for (const std::string& sentence : closing.summary) {
            out_ << sentence << '\n';
        }
    }

private:
    std::ostream& out_;
    Terminal terminal_;
    HostFacts host_;
    std::vector<bench::Row> rows_;  // of the bench that is running
    bool is_first_ = true;
};

}  // namespace

std::unique_ptr<ReportWriter> make_text_writer(std::ostream& out, const Terminal& terminal,
                                               HostFacts host) {
    return std::make_unique<TextWriter>(out, terminal, std::move(host));
}

}  // namespace berth::cli
