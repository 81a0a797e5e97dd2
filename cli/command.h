// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/exit_code.h"

#include <ostream>
#include <span>

namespace berth::cli {

/// The `berth` command. `arguments` are those of main() without the program's name. Data goes to
/// `out`, talk to `err`. May move the process into namespaces of its own and never back, so it is
/// called once, before any thread exists.
ExitCode run(std::span<const char* const> arguments, std::ostream& out, std::ostream& err);

}  // namespace berth::cli
