// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace berth::cli {

/// What may be written to a stream: colour and rewritten lines only on a terminal, and no colour
/// against NO_COLOR (no-color.org) or for TERM=dumb.
struct Terminal {
    bool is_terminal = false;
    bool has_colour = false;

    static Terminal of(int fd);

    std::string bold(std::string_view text) const { return wrap("\033[1m", text); }
    std::string dim(std::string_view text) const { return wrap("\033[2m", text); }
    std::string green(std::string_view text) const { return wrap("\033[32m", text); }

private:
    std::string wrap(std::string_view start, std::string_view text) const {
        return has_colour ? std::string(start).append(text).append("\033[0m") : std::string(text);
    }
};

}  // namespace berth::cli
