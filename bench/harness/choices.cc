// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/choices.h"

#include "bench/harness/environment.h"

#include <algorithm>
#include <cstdio>

namespace berth::bench {
namespace {

constexpr std::string_view kNeedsPortRange = "kernel+range";

}  // namespace

Result<std::vector<Family>> choose_families(const Selection& selection,
                                            std::span<const Family> defaults,
                                            const Environment& environment, Reporter& reporter) {
    std::vector<Family> families = or_default(selection.families, defaults);
    if (environment.has_ipv6 || std::erase(families, Family::ipv6) == 0) {
        return families;
    }
    if (families.empty()) {
        return std::unexpected(Error(Errc::unsupported, "bench", "ipv6", 0,
                                     "IPv6 is switched off on this host",
                                     "--family ipv4 works without it"));
    }
    reporter.note("ipv6 is left out: IPv6 is switched off on this host",
                  !selection.families.empty());
    return families;
}

Result<std::vector<std::string>> choose_allocators(const Selection& selection,
                                                   std::span<const std::string_view> defaults,
                                                   Reporter& reporter) {
    std::vector<std::string> allocators = or_default(selection.allocators, defaults);
    if (has_local_port_range_option() || std::erase(allocators, kNeedsPortRange) == 0) {
        return allocators;
    }
    if (allocators.empty()) {
        return std::unexpected(Error(Errc::unsupported, "bench", kNeedsPortRange, 0,
                                     "IP_LOCAL_PORT_RANGE needs Linux 6.3 or newer",
                                     "all other allocators work without it"));
    }
    reporter.note("kernel+range is left out: IP_LOCAL_PORT_RANGE needs Linux 6.3 or newer",
                  !selection.allocators.empty());
    return allocators;
}

unsigned ports_at(double occupancy_percent, unsigned range_size) noexcept {
    if (occupancy_percent >= 100.0) {
        return range_size;
    }
    // 0.1 % of 19,000 is 19 ports, but 99.9 % is 18,980.999… in binary.
    const double exact = occupancy_percent * range_size / 100.0 + 1e-6;
    return std::min(static_cast<unsigned>(exact), range_size - 1);
}

std::vector<double> choose_occupancies(const Selection& selection, std::span<const double> defaults,
                                       const Environment& environment, Reporter& reporter) {
    std::vector<double> occupancies = or_default(selection.occupancies_percent, defaults);
    std::sort(occupancies.begin(), occupancies.end());
    const unsigned usable = usable_port_count(environment);
    const auto is_beyond = [&](double occupancy) {
        return ports_at(occupancy, environment.range.size()) > usable;
    };
    std::string beyond;
    for (const double occupancy : occupancies) {
        beyond +=
            is_beyond(occupancy) ? (beyond.empty() ? "" : ", ") + percent_text(occupancy) : "";
    }
    if (!beyond.empty()) {
        reporter.note("occupancy " + beyond + " is left out: at most " + std::to_string(usable) +
                          " of the " + std::to_string(environment.range.size()) +
                          " ports may be taken here",
                      true);
    }
    std::erase_if(occupancies, is_beyond);
    return occupancies;
}

std::string percent_text(double percent) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g %%", percent);
    return text;
}

}  // namespace berth::bench
