// SPDX-License-Identifier: Apache-2.0
#include "cli/output/terminal.h"

#include <unistd.h>
#include <cstdlib>

namespace berth::cli {
namespace {

std::string_view environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

}  // namespace

Terminal Terminal::of(int fd) {
    const bool is_terminal = ::isatty(fd) == 1;
    return {is_terminal,
            is_terminal && environment("NO_COLOR").empty() && environment("TERM") != "dumb"};
}

}  // namespace berth::cli
