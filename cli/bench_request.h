// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `berth bench …` was asked for, checked word by word.

#include "bench/harness/environment.h"
#include "cli/bench_catalogue.h"
#include "cli/output/report.h"

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

struct BenchRequest {
    const BenchEntry* bench = nullptr;  // null: the headline of all
    bench::Selection selection;
    Format format = Format::text;
    bench::NamespaceChoice where = bench::NamespaceChoice::automatic;
};

/// Why an argument was refused, in one line for a person.
struct UsageError {
    std::string message;
};

/// One option of `berth bench`.
struct BenchOption {
    std::string_view name;      // without dashes
    std::string_view accepted;  // what its value may be, for the message and the help
    std::string_view description;
    /// Puts the value into the request. False: `refused` says which part is not accepted.
    bool (*apply)(std::string_view value, BenchRequest& request, std::string& refused);

    /// Given twice, a list goes on where a single value is replaced.
    bool is_list() const noexcept { return accepted.ends_with("separated by commas"); }
};

std::span<const BenchOption> bench_options();
bool knows_option(const BenchEntry& bench, std::string_view option);

struct GivenOption {
    const BenchOption* option;
    std::string value;
};

/// `bench_name` empty: the headline. Options a bench does not know are refused.
std::expected<BenchRequest, UsageError> make_request(std::string_view bench_name,
                                                     const std::vector<GivenOption>& given);

}  // namespace berth::cli
