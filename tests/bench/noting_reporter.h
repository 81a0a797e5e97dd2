// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/harness/workload.h"

#include <string>
#include <string_view>
#include <vector>

namespace berth::bench {

/// Keeps what a workload reports.
struct NotingReporter : Reporter {
    void row(Row one) override { rows.push_back(std::move(one)); }
    void progress(double, std::string_view) override {}
    void note(std::string_view text, bool is_partial) override {
        notes.emplace_back(text);
        was_partial = was_partial || is_partial;
    }
    bool is_interrupted() const override { return false; }

    std::vector<Row> rows;
    std::vector<std::string> notes;
    bool was_partial = false;
};

}  // namespace berth::bench
