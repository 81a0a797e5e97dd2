// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers as people read them: "1.4 µs", "1,757 µs", "19,000", "99.9 %".

#include "bench/harness/row.h"

#include <span>
#include <string>
#include <string_view>

namespace berth::cli {

/// "19,000"; rounds to a whole number.
std::string grouped(double value);
/// Three digits or so: "0.09", "1.4", "18", "1,757".
std::string short_number(double value);

enum class TimeUnit : std::uint8_t { ns, us, ms, s };

/// The unit that suits one value: below 1,000 of it, except seconds.
TimeUnit unit_for(double ns);
/// One unit for a whole table, so that its numbers compare at a glance: that of its least value,
/// but never so small that the greatest needs more than six digits.
TimeUnit unit_for(std::span<const double> ns);
std::string duration_text(double ns, TimeUnit unit);
inline std::string duration_text(double ns) { return duration_text(ns, unit_for(ns)); }

/// A row's value with the unit that its key names (`_ns`, `_ms`, `_percent`, `_per_second`,
/// `_kib`); "–" when it was not measured.
std::string value_text(std::string_view key, const bench::Value& value);
/// A key as a column's heading: "fps_during" → "fps during", "binds_per_second" → "binds/s".
std::string heading_of(std::string_view key);

inline constexpr std::string_view kNotMeasured = "–";

}  // namespace berth::cli
