// SPDX-License-Identifier: Apache-2.0
#include "cli/output/units.h"

#include "cli/output/row_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace berth::cli {
namespace {

struct UnitName {
    double ns;
    std::string_view name;
};

constexpr std::array<UnitName, 4> kTimeUnits = {
    {{1.0, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}}};

const UnitName& name_of(TimeUnit unit) { return kTimeUnits[static_cast<std::size_t>(unit)]; }

/// Takes `suffix` off the end of `key`; false when it is not there.
bool strip_suffix(std::string_view& key, std::string_view suffix) {
    if (!key.ends_with(suffix)) {
        return false;
    }
    key.remove_suffix(suffix.size());
    return true;
}

}  // namespace

std::string grouped(double value) {
    std::string digits = fmt::format("{:.0f}", std::abs(value));
    for (std::size_t place = digits.size(); place > 3;) {
        place -= 3;
        digits.insert(place, ",");
    }
    return (value <= -0.5 ? "-" : "") + digits;
}

std::string short_number(double value) {
    const double size = std::abs(value);
    if (size >= 9.95 || value == std::round(value)) {
        return grouped(value);
    }
    if (size >= 0.095) {
        return fmt::format("{:.1f}", value);
    }
    return fmt::format("{:.2g}", value);
}

TimeUnit unit_for(double ns) {
    const double size = std::abs(ns);
    return size < 1e3   ? TimeUnit::ns
           : size < 1e6 ? TimeUnit::us
           : size < 1e9 ? TimeUnit::ms
                        : TimeUnit::s;
}

TimeUnit unit_for(std::span<const double> ns) {
    if (ns.empty()) {
        return TimeUnit::us;
    }
    // 0.6 µs beside 1.4 µs reads better than 600 ns beside 1,400 ns.
    constexpr double kReadsAsNextUnit = 5.0;
    constexpr double kSixDigits = 1e6;
    const auto [least, greatest] = std::ranges::minmax(ns);
    const double smallest_unit_ns = std::max(least * kReadsAsNextUnit, greatest / kSixDigits);
    return unit_for(smallest_unit_ns);
}

std::string duration_text(double ns, TimeUnit unit) {
    const UnitName& name = name_of(unit);
    const double number = ns / name.ns;
    // Less than one of the column's unit: the second digit still tells two variants apart.
    const bool is_small = number >= 0.0095 && number < 0.995;
    return fmt::format("{} {}", is_small ? fmt::format("{:.2f}", number) : short_number(number),
                       name.name);
}

std::string value_text(std::string_view key, const bench::Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        return *text;
    }
    const std::optional<double> number = number_of(value);
    if (!number) {
        return std::string(kNotMeasured);
    }
    if (key.ends_with("_ns")) {
        return duration_text(*number);
    }
    if (key.ends_with("_ms")) {
        return duration_text(*number * 1e6);
    }
    if (key == "user_percent") {  // by ticks: a digit more would say nothing
        return fmt::format("{:.0f} %", *number);
    }
    if (key.ends_with("_percent")) {
        return fmt::format("{:g} %", std::round(*number * 10.0) / 10.0);
    }
    if (key.ends_with("_kib")) {
        return fmt::format("{} MiB", short_number(*number / 1024.0));
    }
    if (key.ends_with("_p")) {
        return *number < 0.001 ? "< 0.001" : fmt::format("{:.3f}", *number);
    }
    if (key.ends_with("_per_second") && *number >= 1e7) {
        return fmt::format("{:.1f} M", *number / 1e6);
    }
    if (key.starts_with("ratio_")) {
        return fmt::format("{:.2f}", *number);
    }
    return short_number(*number);
}

std::string heading_of(std::string_view key) {
    std::string_view rest = key;
    std::string_view ending;
    if (strip_suffix(rest, "_per_second")) {
        ending = "/s";
    } else {
        for (const std::string_view unit : {"_ns", "_ms", "_percent", "_kib"}) {
            if (strip_suffix(rest, unit)) {
                break;
            }
        }
    }
    std::string heading(rest);
    std::ranges::replace(heading, '_', ' ');
    return heading.append(ending);
}

}  // namespace berth::cli
