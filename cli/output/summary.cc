// SPDX-License-Identifier: Apache-2.0
#include "cli/output/summary.h"

#include "cli/output/row_access.h"
#include "cli/output/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace berth::cli {
namespace {

using Rows = std::vector<bench::Row>;

/// Below this a difference is not worth the word "slower" on a noisy machine.
constexpr double kSlowerFrom = 1.5;

/// Cost by occupancy, ascending.
using Curve = std::map<double, double>;

Curve curve_of(const Rows& rows, std::string_view protocol, std::string_view family,
               std::string_view allocator) {
    Curve curve;
    for (const bench::Row& row : rows) {
        const auto occupancy = number_in(row, "occupancy_percent");
        const auto cost = number_in(row, "p50_ns");
        if (row.bench == "bind" && occupancy && cost && *cost > 0 &&
            text_in(row, "protocol") == protocol && text_in(row, "family") == family &&
            text_in(row, "allocator") == allocator) {
            curve[*occupancy] = *cost;
        }
    }
    return curve;
}

/// Where most of the climb is done: the least occupancy that costs half of the greatest cost. A
/// failing call (100 %) is another matter.
double knee_of(const Curve& curve) {
    double greatest = 0;
    for (const auto& [occupancy, cost] : curve) {
        greatest = occupancy < 100 ? std::max(greatest, cost) : greatest;
    }
    const auto knee = std::ranges::find_if(
        curve, [&](const auto& point) { return point.second >= greatest / 2; });
    return knee->first;
}

std::string taken_text(double occupancy) {
    if (occupancy == 0 || occupancy == 50) {
        return occupancy == 0 ? "no port is taken" : "half of the ports are taken";
    }
    return fmt::format("{:g} % of the ports are taken", occupancy);
}

std::string protocol_text(const std::string& protocol) { return protocol == "tcp" ? "TCP" : "UDP"; }

std::string berth_clause(const Curve& berth, double from, double to) {
    const auto low = berth.find(from);
    const auto high = berth.find(to);
    if (low == berth.end() || high == berth.end()) {
        return ".";
    }
    const double ratio = high->second / low->second;
    return ratio < kSlowerFrom ? "; with berth it does not."
                               : fmt::format("; with berth {} ×.", short_number(ratio));
}

std::string bind_sentence_for(const Rows& rows, const std::string& protocol,
                              std::string_view family) {
    const Curve kernel = curve_of(rows, protocol, family, "kernel");
    const Curve berth = curve_of(rows, protocol, family, "berth");
    if (kernel.empty() || kernel.begin()->first >= 100) {
        return "";
    }
    const double from = kernel.begin()->first;
    const double to = knee_of(kernel);
    const double ratio = kernel.at(to) / kernel.at(from);
    const std::string name = protocol_text(protocol);
    if (ratio >= kSlowerFrom) {
        return fmt::format("On this host a {} bind(0) becomes {} × slower once {}{}", name,
                           short_number(ratio), taken_text(to), berth_clause(berth, from, to));
    }
    const auto highest = std::prev(kernel.lower_bound(100));
    if (highest->first == from) {
        return fmt::format("On this host a {} bind(0) takes {} when {}.", name,
                           duration_text(kernel.at(from)), taken_text(from));
    }
    return fmt::format("On this host a {} bind(0) takes about as long when {} as when {}.", name,
                       taken_text(highest->first), taken_text(from));
}

/// The part of its frames that the probe kept, in percent; more than all is noise.
std::optional<double> kept_percent(const bench::Row& row) {
    const auto kept = number_in(row, "fps_kept_percent");
    return kept ? std::optional(std::min(std::round(*kept), 100.0)) : std::nullopt;
}

std::optional<double> rate_of(const bench::Row& row) {
    const auto rate = number_in(row, "rate");
    return rate && *rate > 0 ? rate : std::nullopt;
}

/// The row is the same experiment with another allocator.
bool is_counterpart(const bench::Row& a, const bench::Row& b) {
    return std::ranges::all_of(a.variables, [&](const auto& entry) {
        const bench::Value* other = find_value(b, entry.first);
        return entry.first == "allocator" || entry.first == "mode" ||
               (other != nullptr && *other == entry.second);
    });
}

/// The kernel's row of equal demand that harmed the probe most; null when there is none.
const bench::Row* worst_kernel_row(const Rows& rows) {
    const bench::Row* worst = nullptr;
    for (const bench::Row& row : rows) {
        if (row.bench == "reproducer" && text_in(row, "allocator") == "kernel" && rate_of(row) &&
            kept_percent(row) && (worst == nullptr || *kept_percent(row) < *kept_percent(*worst))) {
            worst = &row;
        }
    }
    return worst;
}

/// Null when neither form of berth was measured beside it.
const bench::Row* berth_counterpart(const Rows& rows, const bench::Row& kernel) {
    for (const std::string_view allocator : {"berth", "berth-shared"}) {
        const auto found = std::ranges::find_if(rows, [&](const bench::Row& row) {
            return row.bench == "reproducer" && text_in(row, "allocator") == allocator &&
                   kept_percent(row) && is_counterpart(kernel, row);
        });
        if (found != rows.end()) {
            return &*found;
        }
    }
    return nullptr;
}

std::string held_text(double percent) {
    return fmt::format("{:g} % of the ports", std::round(percent * 10.0) / 10.0);
}

std::string opened_text(const bench::Row& row) {
    const std::string stopped_by = text_in(row, "stopped_by");
    return fmt::format("{} connections in {}{}", grouped(number_in(row, "succeeded").value_or(0)),
                       duration_text(number_in(row, "total_ms").value_or(0) * 1e6),
                       stopped_by == "time" ? " (stopped by the time limit)" : "");
}

/// The run until exhaustion with the fewest destinations.
const bench::Row* find_total(const Rows& rows, std::string_view allocator) {
    const bench::Row* found = nullptr;
    for (const bench::Row& row : rows) {
        const bool is_total = row.bench == "connect" && number_in(row, "total_ms").has_value() &&
                              text_in(row, "allocator") == allocator;
        if (is_total && (found == nullptr || number_in(row, "destinations").value_or(1) <
                                                 number_in(*found, "destinations").value_or(1))) {
            found = &row;
        }
    }
    return found;
}

const bench::Row* fullest_table_row(const Rows& rows) {
    const bench::Row* fullest = nullptr;
    for (const bench::Row& row : rows) {
        const double occupancy = number_in(row, "occupancy_percent").value_or(100);
        const bool is_candidate = row.bench == "table" && text_in(row, "allocator") == "berth" &&
                                  number_in(row, "threads").value_or(1) == 1 && occupancy < 100 &&
                                  number_in(row, "p50_ns").has_value();
        if (is_candidate &&
            (fullest == nullptr || occupancy > *number_in(*fullest, "occupancy_percent"))) {
            fullest = &row;
        }
    }
    return fullest;
}

/// Where most connections say nothing: the row of this program and engine, of the most of them.
const bench::Row* idlest_row(const Rows& rows, std::string_view program, std::string_view engine) {
    const bench::Row* idlest = nullptr;
    for (const bench::Row& row : rows) {
        const double idle = number_in(row, "idle").value_or(0);
        const bool is_candidate = row.bench == "idle" && text_in(row, "program") == program &&
                                  text_in(row, "engine") == engine && idle > 0 &&
                                  number_in(row, "cpu_ns_per_message").has_value();
        if (is_candidate && (idlest == nullptr || idle > *number_in(*idlest, "idle"))) {
            idlest = &row;
        }
    }
    return idlest;
}

}  // namespace

std::string bind_sentence(const std::vector<bench::Row>& rows) {
    for (const char* const protocol : {"tcp", "udp"}) {
        for (const std::string_view family : {"ipv4", "ipv6"}) {
            std::string sentence = bind_sentence_for(rows, protocol, family);
            if (!sentence.empty()) {
                return sentence;
            }
        }
    }
    return "";
}

std::string harm_sentence(const std::vector<bench::Row>& rows) {
    const bench::Row* kernel = worst_kernel_row(rows);
    if (kernel == nullptr) {
        return "";
    }
    const bench::Row* berth = berth_counterpart(rows, *kernel);
    const auto hold = number_in(*kernel, "hold_percent");
    return fmt::format(
        "A program that asks for {} {} binds/s{} leaves others {:g} % of their "
        "frames{}.",
        grouped(*rate_of(*kernel)), protocol_text(text_in(*kernel, "protocol")),
        hold ? fmt::format(" while {} are taken", held_text(*hold)) : "", *kept_percent(*kernel),
        berth ? fmt::format("; with berth, {:g} %", *kept_percent(*berth)) : "");
}

std::string connect_sentence(const std::vector<bench::Row>& rows) {
    const bench::Row* kernel = find_total(rows, "kernel");
    const bench::Row* berth = find_total(rows, "berth");
    if (kernel == nullptr && berth == nullptr) {
        return "";
    }
    const double destinations = number_in(kernel ? *kernel : *berth, "destinations").value_or(1);
    const std::string where =
        destinations == 1 ? "one destination" : fmt::format("{:g} destinations", destinations);
    if (kernel == nullptr || berth == nullptr) {
        return fmt::format("To {} {} opens {}.", where, kernel ? "connect()" : "berth",
                           opened_text(kernel ? *kernel : *berth));
    }
    return fmt::format("To {} connect() opens {}; berth {}.", where, opened_text(*kernel),
                       opened_text(*berth));
}

std::string waiting_sentence(const std::vector<bench::Row>& rows) {
    const bench::Row* poll = idlest_row(rows, "raw", "poll");
    const bench::Row* ring = idlest_row(rows, "berth", "io_uring");
    const bench::Row* berth = ring != nullptr ? ring : idlest_row(rows, "berth", "epoll");
    if (poll == nullptr || berth == nullptr ||
        *number_in(*poll, "idle") != *number_in(*berth, "idle")) {
        return "";
    }
    const double idle = *number_in(*poll, "idle");
    return fmt::format(
        "While {} of {} connections say nothing, a message costs a poll() loop {}; "
        "with berth, {}.",
        grouped(idle), grouped(idle + number_in(*poll, "connections").value_or(0)),
        duration_text(*number_in(*poll, "cpu_ns_per_message")),
        duration_text(*number_in(*berth, "cpu_ns_per_message")));
}

std::string table_sentence(const std::vector<bench::Row>& rows) {
    const bench::Row* row = fullest_table_row(rows);
    if (row == nullptr) {
        return "";
    }
    return fmt::format("berth takes and releases a port in {} when {}.",
                       duration_text(*number_in(*row, "p50_ns")),
                       taken_text(*number_in(*row, "occupancy_percent")));
}

std::vector<std::string> summarize(const std::vector<bench::Row>& rows) {
    std::vector<std::string> sentences = {bind_sentence(rows), harm_sentence(rows),
                                          connect_sentence(rows)};
    if (sentences.back().empty()) {
        sentences.back() = table_sentence(rows);
    }
    sentences.push_back(waiting_sentence(rows));
    std::erase(sentences, "");
    return sentences;
}

}  // namespace berth::cli
