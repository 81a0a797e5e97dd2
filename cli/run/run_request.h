// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `berth run …` was asked for, checked word by word.

#include <berth/socket.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

struct RunRequest {
    std::optional<PortRange> range;
    std::optional<std::chrono::milliseconds> rest_period;
    std::vector<PortRange> excluded;
    std::uint32_t per_process = 0;               // 0: no limit
    std::string table;                           // empty: one for this run alone
    bool takes_another = false;                  // --on-taken another
    std::chrono::milliseconds wait_for_port{0};  // --when-full; 0: fail
    bool wants_stats = false;
    bool uses_bpf = false;  // --bpf: programs in the kernel instead of a preloaded object
    std::string log_path;   // empty: no log
    bool wants_help = false;
    std::vector<std::string> command;  // the program and its arguments; not empty unless help
};

/// One option of `berth run`.
struct RunOption {
    std::string_view name;      // without dashes
    std::string_view accepted;  // what its value may be; empty: it takes none
    std::string_view description;
    /// Puts the value into the request. False: it is not accepted.
    bool (*apply)(std::string_view value, RunRequest& request);
};

std::span<const RunOption> run_options();

/// Options end at `--` or at the first word that is none. The error is a line for a person.
std::expected<RunRequest, std::string> make_run_request(std::span<const char* const> arguments);

std::string run_help();

}  // namespace berth::cli
