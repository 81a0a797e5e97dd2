// SPDX-License-Identifier: Apache-2.0
#include "cli/output/list_table.h"

#include "cli/output/row_access.h"
#include "cli/output/title.h"
#include "cli/output/units.h"

#include <algorithm>
#include <span>

namespace berth::cli {
namespace {

// What explains a figure to a program that reads the rows, and only crowds a table.
constexpr std::string_view kHiddenFigures[] = {
    "rounds",          "draws",        "ratio_to_floor",
    "ratio_to_kernel", "succeeded",    "unfinished",
    "spread_percent",  "peak_rss_kib", "occupancy_reached_percent",
    "load_per_second"};
// Where the count is the result.
constexpr std::string_view kShownForConnect[] = {"succeeded", "spread_percent", "peak_rss_kib"};
// Beside which there is room.
constexpr std::string_view kShownForOthers[] = {"spread_percent"};
constexpr std::string_view kOthers[] = {"timers", "memory"};

bool contains(std::span<const std::string_view> keys, std::string_view key) {
    return std::ranges::find(keys, key) != keys.end();
}

bool is_hidden(const bench::Row& row, std::string_view key) {
    const bool is_shown = (row.bench == "connect" && contains(kShownForConnect, key)) ||
                          (contains(kOthers, row.bench) && contains(kShownForOthers, key));
    // Both say how the CPU time divides, and the spread of each operation that of all.
    const bool is_said =
        ((key == "user_ms" || key == "system_ms") && find_value(row, "user_percent") != nullptr) ||
        key.ends_with("_spread_percent");
    return is_said || key.starts_with("allocations") ||
           (!is_shown && contains(kHiddenFigures, key));
}

bool is_constant(const std::vector<bench::Row>& rows, std::string_view key) {
    const bench::Value* first = find_value(rows.front(), key);
    return std::ranges::all_of(rows, [&](const bench::Row& row) {
        const bench::Value* value = find_value(row, key);
        return value != nullptr && first != nullptr && *value == *first;
    });
}

bool is_measured(const std::vector<bench::Row>& rows, std::string_view key) {
    return std::ranges::any_of(rows, [&](const bench::Row& row) {
        const bench::Value* value = find_value(row, key);
        return value != nullptr && !std::holds_alternative<std::monostate>(*value);
    });
}

struct Columns {
    std::vector<std::string> keys;
    std::vector<std::string> constants;  // for the title
};

Columns choose_columns(const std::vector<bench::Row>& rows) {
    Columns columns;
    for (const auto& [key, value] : rows.front().variables) {
        const bool is_name = key == "allocator";
        (!is_name && is_constant(rows, key) ? columns.constants : columns.keys).push_back(key);
    }
    // The name leads the line, whatever else varies.
    const auto name = std::ranges::find(columns.keys, "allocator");
    if (name != columns.keys.end()) {
        std::rotate(columns.keys.begin(), name, std::next(name));
    }
    for (const auto& [key, value] : rows.front().figures) {
        if (!is_hidden(rows.front(), key) && is_measured(rows, key)) {
            columns.keys.push_back(key);
        }
    }
    return columns;
}

}  // namespace

Section list_section(const std::vector<bench::Row>& rows, const HostFacts& host) {
    const Columns columns = choose_columns(rows);
    std::vector<std::string> headings;
    for (const std::string& key : columns.keys) {
        headings.push_back(heading_of(key));
    }
    Grid grid(std::move(headings));
    grid.align_left(0);
    for (const bench::Row& row : rows) {
        std::vector<std::string> cells;
        for (const std::string& key : columns.keys) {
            const bench::Value* value = find_value(row, key);
            cells.push_back(value_text(key, value != nullptr ? *value : bench::Value{}));
        }
        grid.add(std::move(cells));
    }
    return {list_title(rows, columns.constants, host), std::move(grid)};
}

}  // namespace berth::cli
