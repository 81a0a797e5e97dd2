// SPDX-License-Identifier: Apache-2.0
#pragma once

// The verbs attach, detach and agent: berth's ports for every program of a cgroup, or of the host.

#include "cli/exit_code.h"

#include <ostream>
#include <span>
#include <string_view>

namespace berth::cli {

struct AttachVerb {
    std::string_view name;
    std::string_view description;
};
std::span<const AttachVerb> attach_verbs();

/// `verb` is one of attach_verbs(); `arguments` are the words after it.
ExitCode run_attach_verb(std::string_view verb, std::span<const char* const> arguments,
                         std::ostream& out, std::ostream& err);

}  // namespace berth::cli
