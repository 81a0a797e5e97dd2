// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <span>

namespace berth::cli {

/// `berth run`: `arguments` are the words after it. Returns the exit status; ends this process by a
/// signal when the program ended by one.
int run_program(std::span<const char* const> arguments, std::ostream& out, std::ostream& err);

}  // namespace berth::cli
