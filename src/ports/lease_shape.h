// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/ports/table_core.h"

#include <berth/ports.h>

#include <cstdint>
#include <vector>

namespace berth::internal {

/// Takes `options.count` ports of the asked shape for `owner`; all of them or none (empty). A run
/// or a pair is drawn uniformly from all places where it fits.
std::vector<std::uint16_t> take_shape(TableCore& core, const Footprint& footprint,
                                      const LeaseOptions& options, OwnerWord owner);

}  // namespace berth::internal
