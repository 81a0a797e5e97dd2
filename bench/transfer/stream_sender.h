// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/error.h>

#include <functional>

namespace berth::bench {

/// The server of `transfer`: accepts `count` connections, calls start(), and sends each its part of
/// the pattern, on all of them at once as they take it.
Result<void> send_streams(int listener, std::size_t count, const std::function<void()>& start);

}  // namespace berth::bench
