// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace berth::bench {

/// Frames per second from a line that a graphics program prints: "… = 60.012 FPS", "fps: 60",
/// "FPS=59.9". Empty when the line says nothing of the kind.
std::optional<double> parse_fps_line(std::string_view line);

}  // namespace berth::bench
