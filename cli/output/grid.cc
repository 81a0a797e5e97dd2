// SPDX-License-Identifier: Apache-2.0
#include "cli/output/grid.h"

#include <algorithm>
#include <numeric>

namespace berth::cli {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr std::string_view kGap = "   ";
constexpr std::string_view kNarrowGap = "  ";
constexpr std::size_t kMostColumns = 100;

std::string without_trailing_spaces(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

std::vector<std::string> words_of(std::string_view heading) {
    std::vector<std::string> words(1);
    for (const char character : heading) {
        if (character == ' ') {
            words.emplace_back();
        } else {
            words.back() += character;
        }
    }
    return words;
}

/// As many words in each line as `width` has room for.
std::vector<std::string> lines_of(const std::vector<std::string>& words, std::size_t width) {
    std::vector<std::string> lines = {words.front()};
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (character_count(lines.back()) + 1 + character_count(words[i]) <= width) {
            lines.back() += ' ' + words[i];
        } else {
            lines.push_back(words[i]);
        }
    }
    return lines;
}

std::size_t line_width(const std::vector<std::size_t>& column_widths, std::string_view gap) {
    return std::accumulate(column_widths.begin(), column_widths.end(), kIndent.size()) +
           gap.size() * (column_widths.size() - 1);
}

}  // namespace

std::size_t character_count(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

std::vector<std::size_t> Grid::widths(const std::vector<Words>& headings) const {
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < headings.size(); ++column) {
        std::size_t width = 0;
        for (const std::string& word : headings[column]) {
            width = std::max(width, character_count(word));
        }
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

void Grid::print_headings(std::ostream& out, const std::vector<Words>& headings,
                          const Layout& layout, const Terminal& terminal) const {
    std::vector<Words> lines;
    std::size_t height = 0;
    for (std::size_t column = 0; column < headings.size(); ++column) {
        lines.push_back(lines_of(headings[column], layout.widths[column]));
        height = std::max(height, lines.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
        std::string text(kIndent);
        for (std::size_t column = 0; column < headings.size(); ++column) {
            // The last lines stand side by side.
            const std::size_t above = height - lines[column].size();
            text += column == 0 ? "" : layout.gap;
            text += cell_text(column, line < above ? "" : lines[column][line - above],
                              layout.widths[column]);
        }
        out << terminal.dim(without_trailing_spaces(text)) << '\n';
    }
}

void Grid::print(std::ostream& out, const Terminal& terminal) const {
    std::vector<Words> headings;
    for (const std::string& heading : headings_) {
        headings.push_back({heading});
    }
    Layout layout = {widths(headings), kGap};
    if (line_width(layout.widths, layout.gap) > kMostColumns) {
        std::ranges::transform(headings_, headings.begin(), words_of);
        layout.widths = widths(headings);
        layout.gap = line_width(layout.widths, kGap) > kMostColumns ? kNarrowGap : kGap;
    }
    print_headings(out, headings, layout, terminal);
    for (const std::vector<std::string>& row : rows_) {
        std::string line(kIndent);
        for (std::size_t column = 0; column < row.size(); ++column) {
            const std::string cell = cell_text(column, row[column], layout.widths[column]);
            const bool is_highlighted =
                std::ranges::find(highlighted_columns_, column) != highlighted_columns_.end();
            line += column == 0 ? "" : layout.gap;
            line += is_highlighted ? terminal.green(cell) : cell;
        }
        out << without_trailing_spaces(line) << '\n';
    }
}

}  // namespace berth::cli
