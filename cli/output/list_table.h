// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/output/layout.h"

namespace berth::cli {

/// Rows with the same keys, one line each; at least one. What is the same in all of them goes into
/// the title, what none of them has is left out.
Section list_section(const std::vector<bench::Row>& rows, const HostFacts& host);

}  // namespace berth::cli
