// SPDX-License-Identifier: Apache-2.0
#pragma once

// From what the user asked for to what this host can do. What the user named and cannot be had is
// noted as missing from the result; what only a default named is left out with a plain note.

#include "bench/harness/workload.h"

#include <berth/error.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::bench {

/// The families to measure. **Errors:** unsupported when only IPv6 is wanted and it is off.
Result<std::vector<Family>> choose_families(const Selection& selection,
                                            std::span<const Family> defaults,
                                            const Environment& environment, Reporter& reporter);

/// The allocators to measure, without kernel+range where IP_LOCAL_PORT_RANGE is missing.
/// **Errors:** unsupported when nothing else is wanted.
Result<std::vector<std::string>> choose_allocators(const Selection& selection,
                                                   std::span<const std::string_view> defaults,
                                                   Reporter& reporter);

/// How many of `range_size` ports are taken at an occupancy; all of them only at 100 %.
unsigned ports_at(double occupancy_percent, unsigned range_size) noexcept;

/// The ascending occupancies that may be reached here; the others are noted.
std::vector<double> choose_occupancies(const Selection& selection, std::span<const double> defaults,
                                       const Environment& environment, Reporter& reporter);

/// "99.9 %".
std::string percent_text(double percent);

/// `items`, or `defaults` when there are none.
template <class T, class U>
std::vector<T> or_default(const std::vector<T>& items, std::span<const U> defaults) {
    return items.empty() ? std::vector<T>(defaults.begin(), defaults.end()) : items;
}

}  // namespace berth::bench
