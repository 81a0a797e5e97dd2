// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/output/terminal.h"

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

/// A table with a heading, as wide as its cells; the first column flush left where it holds names,
/// all others flush right. One that would be wider than 100 columns has its headings in several
/// lines. Cells are UTF-8 of characters that are one column wide.
class Grid {
public:
    explicit Grid(std::vector<std::string> headings) : headings_(std::move(headings)) {}

    /// As many cells as there are headings.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    void align_left(std::size_t column) { left_columns_.push_back(column); }
    void highlight(std::size_t column) { highlighted_columns_.push_back(column); }

    void print(std::ostream& out, const Terminal& terminal) const;

private:
    using Words = std::vector<std::string>;
    struct Layout {
        std::vector<std::size_t> widths;  // index = column
        std::string_view gap;
    };

    std::string cell_text(std::size_t column, std::string_view cell, std::size_t width) const;
    /// The widest of the cells and of what its heading is divided into.
    std::vector<std::size_t> widths(const std::vector<Words>& headings) const;
    void print_headings(std::ostream& out, const std::vector<Words>& headings, const Layout& layout,
                        const Terminal& terminal) const;

    std::vector<std::string> headings_;
    std::vector<std::vector<std::string>> rows_;
    std::vector<std::size_t> left_columns_;
    std::vector<std::size_t> highlighted_columns_;
};

/// The number of characters of a UTF-8 text.
std::size_t character_count(std::string_view text);

}  // namespace berth::cli
