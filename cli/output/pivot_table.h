// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/output/layout.h"

namespace berth::cli {

/// The row gives a time per call at an occupancy.
bool is_pivot_row(const bench::Row& row);

/// Rows that differ in allocator and occupancy only; at least one.
Section pivot_section(const std::vector<bench::Row>& rows, const HostFacts& host);

}  // namespace berth::cli
