// SPDX-License-Identifier: Apache-2.0
#include "cli/output/layout.h"

#include "cli/output/list_table.h"
#include "cli/output/pivot_table.h"
#include "cli/output/row_access.h"
#include "cli/output/units.h"

#include <algorithm>

namespace berth::cli {
namespace {

struct Group {
    std::string key;
    bool is_pivot;
    std::vector<bench::Row> rows;
};

// A table holds one combination of these, whatever its kind.
constexpr std::string_view kSplitting[] = {"protocol", "family", "rate", "hold_percent"};
// And of these, one of programs, which are compared with each other only there.
constexpr std::string_view kSplittingPrograms[] = {
    "connections", "idle", "side", "mode", "ports", "occupancy_percent", "timers"};

bool splits(const bench::Row& row, std::string_view name) {
    return std::ranges::find(kSplitting, name) != std::end(kSplitting) ||
           (has_variable(row, "program") &&
            std::ranges::find(kSplittingPrograms, name) != std::end(kSplittingPrograms));
}

/// A pivot shows one combination of all other variables; a list all rows with the same keys.
std::string group_key(const bench::Row& row, bool is_pivot) {
    std::string key = is_pivot ? "pivot" : "list";
    for (const auto& [name, value] : row.variables) {
        if (splits(row, name) || (is_pivot && name != "allocator" && name != "occupancy_percent")) {
            key += "|" + name + "=" + value_text(name, value);
        } else if (!is_pivot) {
            key += "|" + name;
        }
    }
    for (const auto& [name, value] : row.figures) {
        key += is_pivot ? "" : "|" + name;
    }
    return key;
}

std::vector<Group> group_rows(const std::vector<bench::Row>& rows) {
    std::vector<Group> groups;
    for (const bench::Row& row : rows) {
        const bool is_pivot = is_pivot_row(row);
        const std::string key = group_key(row, is_pivot);
        auto group = std::ranges::find(groups, key, &Group::key);
        if (group == groups.end()) {
            groups.push_back({key, is_pivot, {}});
            group = std::prev(groups.end());
        }
        group->rows.push_back(row);
    }
    return groups;
}

}  // namespace

std::vector<Section> lay_out(const std::vector<bench::Row>& rows, const HostFacts& host) {
    std::vector<Section> sections;
    for (const Group& group : group_rows(rows)) {
        sections.push_back(group.is_pivot ? pivot_section(group.rows, host)
                                          : list_section(group.rows, host));
    }
    return sections;
}

}  // namespace berth::cli
