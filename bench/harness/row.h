// SPDX-License-Identifier: Apache-2.0
#pragma once

// One row of a benchmark's result: which bench, with which variables, and what was measured. The
// keys are a contract with whoever reads the JSON; a figure carries its unit in its key.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace berth::bench {

/// monostate: not measured (null in JSON, "–" in a table).
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;

struct Row {
    std::string bench;                                     // "bind", "connect", …
    std::vector<std::pair<std::string, Value>> variables;  // protocol, family, allocator, …
    std::vector<std::pair<std::string, Value>> figures;    // p50_ns, succeeded, …

    Row& variable(std::string name, Value value) {
        variables.emplace_back(std::move(name), std::move(value));
        return *this;
    }
    Row& figure(std::string name, Value value) {
        figures.emplace_back(std::move(name), std::move(value));
        return *this;
    }
};

}  // namespace berth::bench
