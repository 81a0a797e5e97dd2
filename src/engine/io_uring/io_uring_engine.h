// SPDX-License-Identifier: Apache-2.0
#pragma once

// The engine whose kernel side completes operations itself. One io_uring_enter() for each turn of
// the loop sends off what was submitted, waits, carries the timeout, and brings what has finished.
//
//   submit() ──▶ Receiver, Sender, Acceptor, Polls ──▶ Ring ──▶ kernel
//                     ▲      (by direction; see their headers)     │
//                     └────────────── wait(): completions ◀────────┘
//
// Kernel: 6.1 or newer, as probe.h finds out. Sources: io_uring_enter(2), io_uring/net.c and
// io_uring/poll.c of the kernel.

#include "src/engine/io_uring/acceptor.h"
#include "src/engine/io_uring/core.h"
#include "src/engine/io_uring/polls.h"
#include "src/engine/io_uring/receiver.h"
#include "src/engine/io_uring/sender.h"
#include "src/engine/io_uring/waker.h"

#include <berth/descriptor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace berth::internal {

/// Sizes, and what to do without although the kernel has it. Of interest to tests.
struct IoUringOptions {
    RingSizes ring;
    BufferPoolSizes buffers;
    std::size_t most_unclaimed = 256;  // accepted connections, for each listener
    bool without_message_wake = false;
    bool without_absolute_timer = false;
};

class IoUringEngine final : public Engine {
public:
    /// **Errors:** as probe_io_uring().
    static Result<std::unique_ptr<IoUringEngine>> create(ReadyList& ready,
                                                         const IoUringOptions& options = {});
    ~IoUringEngine() override;

    EngineKind kind() const noexcept override { return EngineKind::io_uring; }
    SlotHandle attach(int fd, DescriptorKind kind) noexcept override;
    void detach(SlotHandle handle, Detach how, CloseOperation* closing) noexcept override;
    Start submit(Operation& operation) noexcept override;
    bool attempt_now(Operation& operation) noexcept override;
    void forget_untried(Operation& operation) noexcept override;
    void cancel(Operation& operation) noexcept override;
    void cancel_input(SlotHandle handle) noexcept override;
    void take_unread(SlotHandle handle, std::vector<std::byte>& bytes) override;
    void shut_down() noexcept override;
    int wait(std::uint64_t deadline_ns) noexcept override;
    void wake() noexcept override { waker_.wake(); }
    Result<int> descriptor() override;
    void add_to(LoopStatistics& statistics) const noexcept override;

    /// For tests.
    Core& core() noexcept { return core_; }

private:
    IoUringEngine(ReadyList& ready, Ring ring, const IoUringOptions& options) noexcept;

    RingSlot* find_open(SlotHandle handle) noexcept;
    Start dispatch(RingSlot& slot, Operation& operation) noexcept;

    // A turn.
    void start_work() noexcept;
    int enter(bool may_sleep, std::uint64_t deadline_ns) noexcept;
    void reap(std::uint32_t taken_position) noexcept;
    void foresee_slot(const io_uring_cqe& later) noexcept;
    void foresee_operation(const io_uring_cqe& soon) noexcept;
    void take(const io_uring_cqe& completion) noexcept;
    void take_of_operation(const io_uring_cqe& completion) noexcept;
    void take_of_slot(const io_uring_cqe& completion) noexcept;
    void push_out() noexcept;

    // The end.
    void settle(RingSlot& slot) noexcept;
    void free_slot(RingSlot& slot) noexcept;
    void end_all_requests() noexcept;
    void cancel_everything() noexcept;
    void give_up() noexcept;

    Core core_;
    Receiver receiver_;
    Sender sender_;
    Acceptor acceptor_;
    Polls polls_;
    Waker waker_;
    Descriptor embedding_event_;        // open once a foreign loop waits for this one
    std::uint32_t detached_count_ = 0;  // slots that only wait for their requests to end
    bool has_waker_started_ = false;
    bool has_lost_completions_ = false;
};

}  // namespace berth::internal
