// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <berth/error.h>

#include <cstdint>
#include <functional>

namespace berth::bench {

/// For a reader that waits for each stream to end before it reads the next one.
enum class SendOrder : std::uint8_t { in_turn, one_by_one };

/// The server of `transfer`: accepts `count` connections, calls start(), and sends each its part of
/// the pattern, a piece on each in turn or one stream after the other. `received_count` is written
/// by the reader; the server is never more than a megabyte ahead of it. (Otherwise a reader that
/// has once been interrupted for half a millisecond finds megabytes that have left the cache, and
/// reads at half the speed for ever, however its loop is made: the benchmark would measure luck.)
Result<void> send_streams(int listener, std::size_t count, SendOrder order,
                          const std::uint64_t& received_count, const std::function<void()>& start);

}  // namespace berth::bench
