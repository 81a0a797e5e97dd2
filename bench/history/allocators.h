// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace berth::bench {

/// The allocators of `berth bench history`, in the order of its rows: oldest first, berth last.
std::span<const std::string_view> history_allocators() noexcept;

}  // namespace berth::bench
