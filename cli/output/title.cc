// SPDX-License-Identifier: Apache-2.0
#include "cli/output/title.h"

#include "cli/output/row_access.h"
#include "cli/output/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace berth::cli {
namespace {

struct BenchName {
    std::string_view bench;
    std::string_view pivot;
    std::string_view list;
};

constexpr std::array<BenchName, 5> kBenchNames = {{
    {"bind", "bind(0)", "bind(0)"},
    {"connect", "connect()", "connect() until no port is left"},
    {"reproducer", "reproducer", "the reproducer: bind in a loop, and a probe beside it"},
    {"table", "take and release", "take, uniformity of the choice"},
    {"history", "the kernel's algorithms", "the kernel's algorithms through time"},
}};

const BenchName* name_of(const bench::Row& row) {
    const auto found = std::ranges::find(kBenchNames, row.bench, &BenchName::bench);
    return found == kBenchNames.end() ? nullptr : &*found;
}

std::string upper_name(std::string_view name) {
    if (name == "ipv4" || name == "ipv6") {
        return name == "ipv4" ? "IPv4" : "IPv6";
    }
    return name == "tcp" ? "TCP" : name == "udp" ? "UDP" : std::string(name);
}

std::string counted(std::string_view noun, double count) {
    std::string singular(noun);
    if (count == 1 && singular.ends_with('s')) {
        singular.pop_back();
    }
    return fmt::format("{} {}", short_number(count), singular);
}

/// "TCP", "IPv4", "2 destinations", "64 workers", "hold 60 %".
std::string variable_text(const bench::Row& row, const std::string& key) {
    const bench::Value* value = find_value(row, key);
    if (value == nullptr || std::holds_alternative<std::monostate>(*value)) {
        return "";
    }
    if (const auto* text = std::get_if<std::string>(value)) {
        const bool is_plain = key == "protocol" || key == "family" || key == "mode";
        return is_plain ? upper_name(*text) : fmt::format("{} {}", heading_of(key), *text);
    }
    if (key.ends_with('s')) {
        return counted(heading_of(key), number_of(*value).value_or(0));
    }
    return fmt::format("{} {}", heading_of(key), value_text(key, *value));
}

/// "19,000 ports (32768–51767)".
std::string range_text(std::string_view range) {
    unsigned first = 0;
    unsigned last = 0;
    const char* const end = range.data() + range.size();
    const auto [dash, first_error] = std::from_chars(range.data(), end, first);
    if (first_error != std::errc{} || dash == end) {
        return "";
    }
    const auto [rest, last_error] = std::from_chars(dash + 1, end, last);
    if (last_error != std::errc{} || rest != end || last < first) {
        return "";
    }
    return fmt::format("{} ports ({}–{})", grouped(last - first + 1), first, last);
}

/// "6.18.4-amd64" → "6.18".
std::string short_release(std::string_view release) {
    const std::size_t first_dot = release.find('.');
    const std::size_t end = release.find_first_not_of(
        "0123456789", first_dot == std::string_view::npos ? release.size() : first_dot + 1);
    return std::string(release.substr(0, end));
}

std::string repeats_text(const std::vector<bench::Row>& rows) {
    double rounds = 0;
    for (const bench::Row& row : rows) {
        rounds = std::max(rounds, number_in(row, "rounds").value_or(0));
    }
    return rounds > 1 ? fmt::format("median of {:g}, interleaved", rounds) : "";
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    std::string joined;
    for (const std::string& part : parts) {
        if (!part.empty()) {
            joined += (joined.empty() ? "" : separator);
            joined += part;
        }
    }
    return joined;
}

std::string with_host(std::string what, const std::vector<bench::Row>& rows,
                      const HostFacts& host) {
    // The models and tables in user space have a range of their own.
    const std::string& bench = rows.front().bench;
    const bool uses_host_range = bench != "table" && bench != "history";
    return join(
        {std::move(what), uses_host_range ? range_text(host.port_range) : "",
         "Linux " + short_release(host.kernel), counted("CPUs", host.cpus), repeats_text(rows)},
        " · ");
}

}  // namespace

std::string pivot_title(const std::vector<bench::Row>& rows, const HostFacts& host) {
    const bench::Row& row = rows.front();
    const BenchName* name = name_of(row);
    std::vector<std::string> parts = {name != nullptr ? std::string(name->pivot) : row.bench};
    for (const auto& [key, value] : row.variables) {
        if (key != "allocator" && key != "occupancy_percent") {
            parts.push_back(variable_text(row, key));
        }
    }
    return with_host(join(parts, ", "), rows, host);
}

std::string list_title(const std::vector<bench::Row>& rows,
                       const std::vector<std::string>& constants, const HostFacts& host) {
    const bench::Row& row = rows.front();
    const BenchName* name = name_of(row);
    std::vector<std::string> parts = {name != nullptr ? std::string(name->list) : row.bench};
    for (const std::string& key : constants) {
        parts.push_back(variable_text(row, key));
    }
    return with_host(join(parts, ", "), rows, host);
}

}  // namespace berth::cli
