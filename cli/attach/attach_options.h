// SPDX-License-Identifier: Apache-2.0
#pragma once

// The words after attach, detach and agent.

#include <berth/socket.h>

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

struct AttachRequest {
    std::string cgroup;  // empty: the root, which is the whole host
    std::string pins;    // empty: the default
    PortRange range = {0, 0};
    std::vector<PortRange> excluded;
    bool starts_agent = true;
    std::string help;  // not empty: to be printed instead
};

/// The error is a line for a person.
std::expected<AttachRequest, std::string> parse_attach_request(
    std::string_view verb, std::string_view description, std::span<const char* const> arguments);

}  // namespace berth::cli
