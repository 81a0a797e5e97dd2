// SPDX-License-Identifier: Apache-2.0
#pragma once

// How rows become tables for people. Rows with an occupancy and a time per call make a pivot:
// occupancies down, allocators across. All other rows of one kind make a list: one line each.

#include "bench/harness/row.h"
#include "cli/output/grid.h"
#include "cli/output/report.h"

#include <string>
#include <vector>

namespace berth::cli {

struct Section {
    std::string title;
    Grid grid;
};

/// The rows of one bench, in the order in which they came.
std::vector<Section> lay_out(const std::vector<bench::Row>& rows, const HostFacts& host);

}  // namespace berth::cli
