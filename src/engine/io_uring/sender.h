// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that puts bytes into a descriptor, one operation after the other.
//
// A socket has one send in flight. What is submitted meanwhile, and all that is submitted within
// a turn of the loop, waits in the slot and goes out together as one *batch*; so order is kept and
// short pieces are joined. Nothing is sent before wait(), which sends for all sockets at once; only
// datagrams go out as they are submitted, for the kernel gains nothing by taking them together.
//
// Most batches are small and the socket has room. These are sent *silently*: without waiting, and
// without a completion unless they fail. When the kernel has taken the entry and there is no
// completion, everything was sent. That shows when wait() returns: it does not sleep on a silent
// batch that somebody waits for.

#include "src/engine/io_uring/core.h"
#include "src/engine/io_uring/scratch.h"

#include <cstdint>
#include <vector>

namespace berth::internal {

class Sender {
public:
    explicit Sender(Core& core) noexcept : core_(core) {}

    Start submit(RingSlot& slot, Operation& operation) noexcept;
    void cancel(RingSlot& slot, Operation& operation) noexcept;

    /// A completion of the slot's batch.
    void on_send(RingSlot& slot, int result) noexcept;
    void on_operation(RingSlot& slot, Operation& operation, int result) noexcept;

    void before_wait() noexcept;
    /// Someone waits for the result of a silent batch: the next enter() must not sleep.
    bool has_waiting_user() const noexcept { return has_waiting_user_; }
    bool has_silent() const noexcept { return !silent_.empty(); }
    /// All completions were looked at that there were when the kernel had taken the entries below
    /// `taken_position`. Calls `settle(slot)` for each slot whose silent batch has succeeded.
    template <class Settle>
    void after_enter(std::uint32_t taken_position, Settle settle) noexcept;

    /// Sends at once what can be sent, before the slot goes: a send followed by a close sends.
    void flush(RingSlot& slot) noexcept;

private:
    struct Silent {
        SlotHandle handle;
        std::uint32_t position;
    };

    void mark(RingSlot& slot) noexcept;
    void start(RingSlot& slot) noexcept;
    bool start_head(RingSlot& slot, Operation& operation) noexcept;
    int start_operation(RingSlot& slot, Operation& operation) noexcept;
    void remove(RingSlot& slot, Operation& operation, int result) noexcept;

    // Batches.
    bool send_stream(RingSlot& slot) noexcept;
    int send_datagrams(RingSlot& slot) noexcept;
    void begin_batch(RingSlot& slot, io_uring_sqe& entry, std::uint16_t count, bool is_silent,
                     bool has_user) noexcept;
    void complete_silent(RingSlot& slot) noexcept;
    unsigned count_sent(RingSlot& slot, unsigned count, std::size_t sent) noexcept;
    void end_cancelled(RingSlot& slot, unsigned count) noexcept;
    void end_stream_batch(RingSlot& slot, unsigned count, bool was_silent, int result) noexcept;

    // Operations of their own.
    int start_connect(RingSlot& slot, ConnectOperation& operation) noexcept;
    void start_write(RingSlot& slot, WriteOperation& operation, bool is_ready) noexcept;
    int start_send_file(RingSlot& slot, Operation& operation) noexcept;
    int start_splice(RingSlot& slot, SpliceOperation& operation) noexcept;
    int finish_connect(RingSlot& slot, ConnectOperation& operation, int result,
                       bool has_polled) noexcept;

    Core& core_;
    Scratch scratch_;
    std::vector<SlotHandle> dirty_;
    std::vector<SlotHandle> looked_at_;  // memory for before_wait()
    std::vector<Silent> silent_;         // in the order of their entries
    bool has_waiting_user_ = false;
};

template <class Settle>
void Sender::after_enter(std::uint32_t taken_position, Settle settle) noexcept {
    std::size_t done = 0;
    for (; done < silent_.size(); ++done) {
        const Silent entry = silent_[done];  // the next of the slot may be added meanwhile
        if (static_cast<std::int32_t>(taken_position - entry.position) <= 0) {
            break;
        }
        RingSlot* slot = core_.slots.find(entry.handle);
        if (slot != nullptr && slot->is_silent && slot->send_position == entry.position) {
            complete_silent(*slot);
            settle(*slot);
        }
    }
    silent_.erase(silent_.begin(), silent_.begin() + static_cast<std::ptrdiff_t>(done));
    has_waiting_user_ = has_waiting_user_ && !silent_.empty();
}

}  // namespace berth::internal
