// SPDX-License-Identifier: Apache-2.0
#pragma once

// Values of options, taken strictly: the whole text, within its bounds, no empty items.

#include <algorithm>
#include <charconv>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

/// What was not accepted: the part of the text, never the whole list.
using Refused = std::string;

template <class T>
std::expected<T, Refused> parse_number(std::string_view text, T least, T most) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const bool is_in_bounds = value >= least && value <= most;  // false for NaN
    if (error != std::errc{} || rest != end || !is_in_bounds) {
        return std::unexpected(std::string(text));
    }
    return value;
}

/// "a,b,c" by `parse_item`, without those given twice.
template <class ParseItem>
auto parse_list(std::string_view text, ParseItem parse_item) {
    using Item = typename decltype(parse_item(text))::value_type;
    std::vector<Item> items;
    for (std::size_t start = 0; start <= text.size();) {
        const std::size_t comma = std::min(text.find(',', start), text.size());
        auto item = parse_item(text.substr(start, comma - start));
        if (!item) {
            return std::expected<std::vector<Item>, Refused>(std::unexpected(item.error()));
        }
        if (std::find(items.begin(), items.end(), *item) == items.end()) {
            items.push_back(*item);
        }
        start = comma + 1;
    }
    return std::expected<std::vector<Item>, Refused>(std::move(items));
}

/// "a, b or c".
std::string one_of(const std::vector<std::string>& names);

}  // namespace berth::cli
