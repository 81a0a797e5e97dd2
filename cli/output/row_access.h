// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reading rows by key; what is missing and what was not measured read the same.

#include "bench/harness/row.h"

#include <optional>
#include <string>
#include <string_view>

namespace berth::cli {

/// A variable or a figure; null when the row has neither.
const bench::Value* find_value(const bench::Row& row, std::string_view key);
std::optional<double> number_of(const bench::Value& value);
std::optional<double> number_in(const bench::Row& row, std::string_view key);
/// Empty when missing.
std::string text_in(const bench::Row& row, std::string_view key);
bool has_variable(const bench::Row& row, std::string_view key);

}  // namespace berth::cli
