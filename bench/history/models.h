// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/history/port_model.h"

#include <berth/error.h>

#include <memory>
#include <string_view>

namespace berth::bench {

/// `allocator` is one of history_allocators(). **Errors:** invalid_argument for another; what
/// making a table answers.
Result<std::unique_ptr<PortModel>> make_port_model(std::string_view allocator, PortRange range);

}  // namespace berth::bench
