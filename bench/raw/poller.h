// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the programs over a readiness engine ask of it. A Poller is one:
//
//   static constexpr bool kIsEdge;           // reports a change, not a state
//   static constexpr bool kMustReadWakeup;   // an eventfd stays ready until it is read
//   static Result<Poller> open(std::size_t capacity);
//   Result<void> add(int fd, std::uint32_t token, Interest interest);
//   Result<void> add_wakeup(int fd);
//   void remove(int fd);                     // just before close()
//   Result<void> wait(OnReady on_ready);     // on_ready(const Ready&), once for each that is
//   ready;
//                                            // it may add any, and remove the one it is called for

#include <cstdint>

namespace berth::bench::raw {

enum class Interest : std::uint8_t { read, write };

struct Ready {
    int fd;
    std::uint32_t token;
    bool has_input_ended = false;  // edge only: read until the end comes, no further edge will
    bool may_have_failed = false;  // of a connect()
};

}  // namespace berth::bench::raw
