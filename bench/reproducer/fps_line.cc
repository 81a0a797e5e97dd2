// SPDX-License-Identifier: Apache-2.0
#include "bench/reproducer/fps_line.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace berth::bench {
namespace {

constexpr std::string_view kUnit = "fps";
constexpr std::string_view kDigits = "0123456789.";

bool equal_ignoring_case(char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
}

std::optional<double> to_number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc{} && end == text.data() + text.size();
    return is_number && std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> number_at_end(std::string_view text) {
    const auto last = text.find_last_not_of(' ');
    text = text.substr(0, last == text.npos ? 0 : last + 1);
    const auto before = text.find_last_not_of(kDigits);
    return to_number(text.substr(before == text.npos ? 0 : before + 1));
}

std::optional<double> number_at_start(std::string_view text) {
    const auto first = text.find_first_not_of(" \t:=");
    text = text.substr(first == text.npos ? text.size() : first);
    return to_number(text.substr(0, text.find_first_not_of(kDigits)));
}

}  // namespace

std::optional<double> parse_fps_line(std::string_view line) {
    auto from = line.begin();
    while (true) {
        const auto unit =
            std::search(from, line.end(), kUnit.begin(), kUnit.end(), equal_ignoring_case);
        if (unit == line.end()) {
            return std::nullopt;
        }
        const auto position = static_cast<std::size_t>(unit - line.begin());
        if (const auto before = number_at_end(line.substr(0, position))) {
            return before;
        }
        if (const auto after = number_at_start(line.substr(position + kUnit.size()))) {
            return after;
        }
        from = unit + static_cast<std::ptrdiff_t>(kUnit.size());
    }
}

}  // namespace berth::bench
