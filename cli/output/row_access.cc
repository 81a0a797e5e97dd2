// SPDX-License-Identifier: Apache-2.0
#include "cli/output/row_access.h"

#include <algorithm>

namespace berth::cli {
namespace {

using Entries = std::vector<std::pair<std::string, bench::Value>>;

const bench::Value* find_in(const Entries& entries, std::string_view key) {
    const auto found = std::ranges::find(entries, key, &Entries::value_type::first);
    return found == entries.end() ? nullptr : &found->second;
}

}  // namespace

const bench::Value* find_value(const bench::Row& row, std::string_view key) {
    const bench::Value* variable = find_in(row.variables, key);
    return variable != nullptr ? variable : find_in(row.figures, key);
}

std::optional<double> number_of(const bench::Value& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        return static_cast<double>(*integer);
    }
    const auto* real = std::get_if<double>(&value);
    return real != nullptr ? std::optional(*real) : std::nullopt;
}

std::optional<double> number_in(const bench::Row& row, std::string_view key) {
    const bench::Value* value = find_value(row, key);
    return value != nullptr ? number_of(*value) : std::nullopt;
}

std::string text_in(const bench::Row& row, std::string_view key) {
    const bench::Value* value = find_value(row, key);
    const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
    return text != nullptr ? *text : std::string();
}

bool has_variable(const bench::Row& row, std::string_view key) {
    return find_in(row.variables, key) != nullptr;
}

}  // namespace berth::cli
