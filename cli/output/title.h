// SPDX-License-Identifier: Apache-2.0
#pragma once

// The line above a table: what was measured, on how many ports of which range, on which kernel.

#include "bench/harness/row.h"
#include "cli/output/report.h"

#include <string>
#include <vector>

namespace berth::cli {

/// Of at least one row: "bind(0), TCP, IPv4 · 19,000 ports (32768–51767) · Linux 6.18 · 2 CPUs ·
/// median of 7, …"
std::string pivot_title(const std::vector<bench::Row>& rows, const HostFacts& host);

/// The same for one line a row; `constants` are the variables that have one value in all rows.
std::string list_title(const std::vector<bench::Row>& rows,
                       const std::vector<std::string>& constants, const HostFacts& host);

}  // namespace berth::cli
