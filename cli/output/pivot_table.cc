// SPDX-License-Identifier: Apache-2.0
#include "cli/output/pivot_table.h"

#include "cli/output/row_access.h"
#include "cli/output/title.h"
#include "cli/output/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::cli {
namespace {

constexpr std::string_view kFigure = "p50_ns";

/// The values of `key` in the order of their first appearance.
template <class T, class Read>
std::vector<T> distinct(const std::vector<bench::Row>& rows, Read read) {
    std::vector<T> values;
    for (const bench::Row& row : rows) {
        const T value = read(row);
        if (std::ranges::find(values, value) == values.end()) {
            values.push_back(value);
        }
    }
    return values;
}

double occupancy_of(const bench::Row& row) {
    return number_in(row, "occupancy_percent").value_or(0);
}

std::string allocator_of(const bench::Row& row) { return text_in(row, "allocator"); }

const bench::Row* find_row(const std::vector<bench::Row>& rows, double occupancy,
                           std::string_view allocator) {
    const auto found = std::ranges::find_if(rows, [&](const bench::Row& row) {
        return occupancy_of(row) == occupancy && allocator_of(row) == allocator;
    });
    return found == rows.end() ? nullptr : &*found;
}

TimeUnit table_unit(const std::vector<bench::Row>& rows) {
    std::vector<double> values;
    for (const bench::Row& row : rows) {
        values.push_back(number_in(row, kFigure).value_or(0));
    }
    return unit_for(values);
}

std::string cell_of(const bench::Row* row, TimeUnit unit) {
    const std::optional<double> value = row != nullptr ? number_in(*row, kFigure) : std::nullopt;
    return value ? duration_text(*value, unit) : std::string(kNotMeasured);
}

/// How many times longer the kernel takes; from the paired rounds where they are known.
std::string kernel_ratio_cell(const bench::Row* kernel, const bench::Row* berth) {
    if (kernel == nullptr || berth == nullptr) {
        return std::string(kNotMeasured);
    }
    const double paired = number_in(*berth, "ratio_to_kernel").value_or(0);
    if (paired > 0) {
        return short_number(1.0 / paired);
    }
    const double denominator = number_in(*berth, kFigure).value_or(0);
    return denominator > 0 ? short_number(number_in(*kernel, kFigure).value_or(0) / denominator)
                           : std::string(kNotMeasured);
}

}  // namespace

bool is_pivot_row(const bench::Row& row) {
    return has_variable(row, "occupancy_percent") && has_variable(row, "allocator") &&
           number_in(row, kFigure).has_value();
}

Section pivot_section(const std::vector<bench::Row>& rows, const HostFacts& host) {
    const auto occupancies = distinct<double>(rows, occupancy_of);
    const auto allocators = distinct<std::string>(rows, allocator_of);
    const auto has = [&](std::string_view name) {
        return std::ranges::find(allocators, name) != allocators.end();
    };
    const bool has_ratio = has("kernel") && has("berth");
    std::vector<std::string> headings = {"taken"};
    headings.insert(headings.end(), allocators.begin(), allocators.end());
    if (has_ratio) {
        headings.emplace_back("kernel/berth");
    }
    Grid grid(std::move(headings));
    const TimeUnit unit = table_unit(rows);
    for (const double occupancy : occupancies) {
        std::vector<std::string> cells = {occupancy >= 100 ? "full"
                                                           : fmt::format("{:g} %", occupancy)};
        for (const std::string& allocator : allocators) {
            cells.push_back(cell_of(find_row(rows, occupancy, allocator), unit));
        }
        if (has_ratio) {
            cells.push_back(kernel_ratio_cell(find_row(rows, occupancy, "kernel"),
                                              find_row(rows, occupancy, "berth")));
        }
        grid.add(std::move(cells));
    }
    if (has_ratio) {
        grid.highlight(allocators.size() + 1);
    }
    return {pivot_title(rows, host), std::move(grid)};
}

}  // namespace berth::cli
