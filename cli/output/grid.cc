// SPDX-License-Identifier: Apache-2.0
#include "cli/output/grid.h"

#include <algorithm>

namespace berth::cli {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr std::string_view kGap = "   ";

std::string without_trailing_spaces(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

}  // namespace

std::size_t character_count(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

std::vector<std::size_t> Grid::widths() const {
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < headings_.size(); ++column) {
        std::size_t width = character_count(headings_[column]);
        for (const std::vector<std::string>& row : rows_) {
            width = std::max(width, character_count(row[column]));
        }
        widths.push_back(width);
    }
    return widths;
}

std::string Grid::cell_text(std::size_t column, std::string_view cell, std::size_t width) const {
    const std::string padding(width - character_count(cell), ' ');
    const bool is_left = std::ranges::find(left_columns_, column) != left_columns_.end();
    return is_left ? std::string(cell) + padding : padding + std::string(cell);
}

void Grid::print(std::ostream& out, const Terminal& terminal) const {
    const std::vector<std::size_t> column_widths = widths();
    std::string heading(kIndent);
    for (std::size_t column = 0; column < headings_.size(); ++column) {
        heading += column == 0 ? "" : kGap;
        heading += cell_text(column, headings_[column], column_widths[column]);
    }
    out << terminal.dim(without_trailing_spaces(heading)) << '\n';
    for (const std::vector<std::string>& row : rows_) {
        std::string line(kIndent);
        for (std::size_t column = 0; column < row.size(); ++column) {
            const std::string cell = cell_text(column, row[column], column_widths[column]);
            const bool is_highlighted =
                std::ranges::find(highlighted_columns_, column) != highlighted_columns_.end();
            line += column == 0 ? "" : kGap;
            line += is_highlighted ? terminal.green(cell) : cell;
        }
        out << without_trailing_spaces(line) << '\n';
    }
}

}  // namespace berth::cli
