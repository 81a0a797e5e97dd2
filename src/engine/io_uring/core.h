// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the parts of the engine have in common: requests to the kernel, how they are counted and
// cancelled, and how an operation ends.
//
// A slot and an operation stay until the last completion of every request made in their name has
// come. So an operation that is cancelled ends when both its request and the request that cancels
// it have completed.

#include "src/engine/io_uring/buffer_pool.h"
#include "src/engine/io_uring/message_pool.h"
#include "src/engine/io_uring/ring.h"
#include "src/engine/io_uring/slot.h"
#include "src/engine/lent_pool.h"
#include "src/engine/slot_table.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace berth::internal {

class Core {
public:
    Core(ReadyList& ready_list, Ring own_ring, const BufferPoolSizes& sizes) noexcept
        : ready(ready_list), buffers(sizes), ring(std::move(own_ring)) {}

    // Requests. Of the entry that is returned, the rest is to be filled in at once.
    io_uring_sqe& request(RingSlot& slot, Operation& operation, io_uring_op code) noexcept;
    io_uring_sqe& request(RingSlot& slot, RequestTag tag, io_uring_op code) noexcept;
    /// Waits until the slot's descriptor is ready; completes as the operation's.
    void poll(RingSlot& slot, Operation& operation, short events) noexcept;
    void poll_pipe(RingSlot& slot, SpliceOperation& operation, short events) noexcept;
    /// The last completion of a request has come.
    void end_request(RingSlot& slot) noexcept {
        --slot.in_flight;
        --in_flight_count;
    }

    // Cancelling.
    void cancel(RingSlot& slot, Operation& operation) noexcept;
    void cancel(RingSlot& slot, RequestTag target) noexcept;
    /// Everything that a slot which goes still has in flight, request by request: a cancellation by
    /// descriptor looks at all requests of the ring.
    void cancel_in_flight(RingSlot& slot) noexcept;
    void on_operation_cancelled(Operation& operation, int result) noexcept;
    void on_request_cancelled(RingSlot& slot, RequestTag target, int result) noexcept;
    /// After all completions of a turn: cancels again, by descriptor, what the kernel did not find.
    /// (A request may be on its way from one of the kernel's lists to another.)
    void cancel_again() noexcept;
    /// Cancels `operation`, which is on `list`. False: it is in flight, and ends later.
    bool cancel_waiting(RingSlot& slot, OperationList& list, Operation& operation) noexcept;
    /// What waits ends with -ECANCELED; what is in flight is to.
    void cancel_list(OperationList& list) noexcept;

    // Results.
    /// `operation` is on no list and not in flight.
    void finish(Operation& operation, int result) noexcept;
    /// The answer to a submission.
    static Start answer(Operation& operation, int result) noexcept;
    /// A result that was not asked for, and says that the request must be made again.
    static bool must_repeat(const Operation& operation, int result) noexcept;

    /// attempt() for what has no flag that keeps it from waiting.
    int attempt_without_waiting(RingSlot& slot, Operation& operation) noexcept;
    /// Takes O_NONBLOCK from a socket, with which some kernels answer EAGAIN instead of waiting.
    /// False: that was done before, or it is not berth's to change.
    static bool make_blocking(RingSlot& slot) noexcept;

    MessageBlock* block_of(Operation& operation) noexcept;
    /// Null when there is no memory.
    MessageBlock* take_block(Operation& operation) noexcept;

    ReadyList& ready;
    SlotTable<RingSlot> slots;
    BufferPool buffers;
    MessagePool messages;
    OperationList ending;  // have their results; the requests that cancel them are under way
    Ring ring;             // goes before the memory that it uses
    LentPool lent;         // for what is read by hand
    std::uint32_t in_flight_count = 0;
    bool has_unsent = false;   // something waits for the next turn to be sent
    bool is_embedded = false;  // a foreign loop waits: what it cannot see must not happen

private:
    void cancel_by_descriptor(RingSlot& slot) noexcept;

    std::vector<SlotHandle> not_found_;
};

}  // namespace berth::internal
