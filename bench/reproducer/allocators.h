// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace berth::bench {

/// The allocators of `berth bench reproducer`, in the order of its rows.
std::span<const std::string_view> reproducer_allocators() noexcept;

}  // namespace berth::bench
