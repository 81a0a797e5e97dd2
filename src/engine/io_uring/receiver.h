// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that takes bytes out of a descriptor, one operation after the other.
//
// Who receives by lending gets a receive into provided buffers that, once asked for, goes on by
// itself (multishot): what comes while nobody waits is queued in the slot, and handed out without
// a system call. It ends when too much is queued (back-pressure) or no buffer is left (the slot is
// then *starved*), and begins again when somebody waits and there is room.
//
// A stream that fills two buffers in a row moves much (*bulk*). Buffers that the kernel uses in
// turn would leave the processor's cache before they are used again; so it is polled, and read by
// hand when its reader's turn comes, into the memory that the last reader has just given back.
//
// All other operations are requests of their own, but take first what is queued.

#include "src/engine/io_uring/core.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace berth::internal {

class Receiver {
public:
    explicit Receiver(Core& core) noexcept : core_(core) {}

    Start submit(RingSlot& slot, Operation& operation) noexcept;
    void cancel(RingSlot& slot, Operation& operation) noexcept;
    /// As cancel() for all, with -ECANCELED.
    void cancel_all(RingSlot& slot) noexcept;

    /// A completion of the slot's receive into provided buffers.
    void on_receive(RingSlot& slot, int result, unsigned flags) noexcept;
    void on_operation(RingSlot& slot, Operation& operation, int result, unsigned flags) noexcept;
    /// Ends the receive into provided buffers.
    void stop(RingSlot& slot) noexcept { disarm(slot); }
    /// Appends what is queued.
    void take_unread(RingSlot& slot, std::vector<std::byte>& bytes);

    /// See Engine::attempt_now() and Engine::forget_untried().
    bool attempt_now(RingSlot& slot, Operation& operation) noexcept;
    void forget_untried(RingSlot& slot) noexcept;

    /// One that was being cancelled has completed: those behind it go on.
    void resume(RingSlot& slot) noexcept { advance(slot); }

    void before_wait() noexcept;
    /// What the sender had to go before, has gone.
    void resume_postponed() noexcept;
    bool has_postponed() const noexcept { return !postponed_.empty(); }
    bool has_starved() const noexcept { return !starved_[0].empty() || !starved_[1].empty(); }
    /// The slot goes; nothing of it is in flight.
    void release(RingSlot& slot) noexcept;

private:
    // What is queued.
    int take_received(RingSlot& slot, Operation& operation) noexcept;
    int take_end(RingSlot& slot, Operation& operation) noexcept;
    int copy_received(RingSlot& slot, std::span<const iovec> parts) noexcept;
    int copy_received(RingSlot& slot, std::span<std::byte> to) noexcept;
    template <class Receive>
    int copy_received(RingSlot& slot, const Receive& receive) noexcept {
        return receive.parts.empty() ? copy_received(slot, receive.buffer)
                                     : copy_received(slot, receive.parts);
    }
    int copy_datagram(RingSlot& slot, ReceiveFromOperation& operation) noexcept;
    int copy_datagrams(RingSlot& slot, ReceiveBatchOperation& operation) noexcept;

    // The receive into provided buffers.
    int arm(RingSlot& slot) noexcept;
    void disarm(RingSlot& slot) noexcept;
    void note_end(RingSlot& slot, BufferKind kind, int result) noexcept;
    void note_size(RingSlot& slot, int result, unsigned flags) noexcept;
    void note_heavy(RingSlot& slot) noexcept;
    bool is_heavy(const RingSlot& slot) noexcept;
    void tell_polls(RingSlot& slot) noexcept;

    // Bulk.
    bool start_bulk(RingSlot& slot, Operation& operation) noexcept;
    int receive_bulk(RingSlot& slot, Operation& operation) noexcept;
    void on_readable(RingSlot& slot, int result) noexcept;

    void rearm_starved(BufferKind kind) noexcept;

    // Operations.
    void advance(RingSlot& slot) noexcept;
    int try_at_once(RingSlot& slot, Operation& operation) noexcept;
    bool start(RingSlot& slot, Operation& operation) noexcept;
    int start_direct(RingSlot& slot, Operation& operation) noexcept;
    int start_receive(RingSlot& slot, ReceiveOperation& operation) noexcept;
    void start_message(RingSlot& slot, Operation& operation, MessageBlock& block) noexcept;
    void start_read(RingSlot& slot, ReadOperation& operation, bool is_ready) noexcept;
    int start_receive_from(RingSlot& slot, ReceiveFromOperation& operation) noexcept;
    int start_batch(RingSlot& slot, ReceiveBatchOperation& operation, bool is_ready) noexcept;
    static int receive_batch(RingSlot& slot, ReceiveBatchOperation& operation) noexcept;
    int start_splice(RingSlot& slot, SpliceOperation& operation) noexcept;
    int finish_request(RingSlot& slot, Operation& operation, int result, unsigned flags) noexcept;

    Core& core_;
    std::array<std::vector<SlotHandle>, 2> starved_;  // by BufferKind
    std::vector<SlotHandle> heavy_;
    std::vector<SlotHandle> postponed_;
    std::vector<SlotHandle> looked_at_;  // memory for before_wait()
};

}  // namespace berth::internal
