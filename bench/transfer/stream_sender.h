// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/error.h>

#include <cstdint>
#include <functional>

namespace berth::bench {

/// The server of `transfer`: accepts `count` connections, calls start(), and sends each its part of
/// the pattern, a piece on each in turn. `received_count` is written by the reader; the server is
/// never more than a megabyte ahead of it. (Otherwise a reader that has once been interrupted for
/// half a millisecond finds megabytes that have left the cache, and reads at half the speed for
/// ever, however its loop is made: the benchmark would measure luck.)
Result<void> send_streams(int listener, std::size_t count, const std::uint64_t& received_count,
                          const std::function<void()>& start);

}  // namespace berth::bench
