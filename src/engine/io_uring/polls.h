// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/io_uring/core.h"

namespace berth::internal {

/// Waits until descriptors are ready: one request for each operation.
class Polls {
public:
    explicit Polls(Core& core) noexcept : core_(core) {}

    Start submit(RingSlot& slot, PollOperation& operation) noexcept;
    void cancel(RingSlot& slot, Operation& operation) noexcept;
    /// As cancel() with -ECANCELED for those that wait for input.
    void cancel_input(RingSlot& slot) noexcept;
    void on_operation(RingSlot& slot, PollOperation& operation, int result) noexcept;

private:
    Core& core_;
};

}  // namespace berth::internal
