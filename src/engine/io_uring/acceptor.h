// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accepting: one request, armed when somebody first waits, that goes on by itself. Connections
// that come while nobody waits are queued in the slot, up to a limit; beyond it they stay in the
// kernel's backlog.
//
// When descriptors run out, the kernel says so whether or not there is a connection. So the next
// request first waits for one: an error tells of a connection that could not be accepted, and that
// is still there.

#include "src/engine/io_uring/core.h"

#include <cstddef>
#include <vector>

namespace berth::internal {

class Acceptor {
public:
    Acceptor(Core& core, std::size_t most_unclaimed) noexcept
        : core_(core), most_unclaimed_(most_unclaimed) {}

    Start submit(RingSlot& slot, AcceptOperation& operation) noexcept;
    void cancel(RingSlot& slot, Operation& operation) noexcept;

    void on_accept(RingSlot& slot, int result, unsigned flags) noexcept;
    /// After all completions of a turn: hands out what has come, together.
    void after_completions() noexcept;
    void before_wait() noexcept;
    /// The slot goes: closes what nobody has claimed.
    static void release(RingSlot& slot) noexcept;

private:
    void arm(RingSlot& slot) noexcept;
    void disarm(RingSlot& slot) noexcept;
    void note_error(RingSlot& slot, int result) noexcept;
    void mark(RingSlot& slot) noexcept;
    static int take(RingSlot& slot, AcceptOperation& operation) noexcept;

    Core& core_;
    std::size_t most_unclaimed_;
    std::vector<SlotHandle> new_;
    std::vector<SlotHandle> full_;
};

}  // namespace berth::internal
