// SPDX-License-Identifier: Apache-2.0
#pragma once

// What select, poll and epoll have in common: completions out of readiness. An operation is tried
// at once when its socket may be ready, otherwise it is parked in the socket's list for its
// direction and tried again when the kernel says that the socket is ready.
//
// "May be ready" is a bit for each direction: set by an event, cleared by EAGAIN and by a read that
// brought less than it had room for. It must stay set after such a read when the peer has hung up,
// or the end of the stream is never read: epoll tells each edge once.

#include "src/engine/attempt.h"
#include "src/engine/engine.h"
#include "src/engine/lent_pool.h"
#include "src/engine/slot_table.h"

#include <cstdint>
#include <vector>

namespace berth::internal {

/// One descriptor: one line of the cache.
struct alignas(64) ReadinessSlot {
    static constexpr std::uint32_t kNoPlace = ~0U;

    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
    int fd = -1;
    std::uint32_t place = kNoPlace;  // where it is in the array of poll()
    OperationList reads;             // parked, in the order they were submitted
    OperationList writes;
    // The places of pipes that the first read, or write, waits for (a splice), plus one. It is on
    // the list of the pipe meanwhile, and those behind it wait.
    std::uint32_t read_pipe = 0;
    std::uint32_t write_pipe = 0;
    short interest = 0;    // what the kernel has been asked to tell
    short lost_errno = 0;  // what broke the connection, told to a send and to nobody else
    DescriptorKind kind = DescriptorKind::other;
    bool may_read = false;
    bool may_write = false;
    bool has_urgent : 1 = false;       // urgent data has come once
    bool has_hung_up : 1 = false;      // an end or an error is waiting to be read
    bool is_write_broken : 1 = false;  // a send went out in part
    bool is_changed : 1 = false;       // in the list of changed slots
    bool is_nonblocking : 1 = false;   // O_NONBLOCK is known to be set
    bool has_untried : 1 = false;      // its first receive is on the ready list, to be tried there
    bool is_pipe : 1 = false;          // of a splice: the slot is the engine's own
    bool is_untried_over : 1 = false;  // ... and is cancelled if nothing is there
};
static_assert(sizeof(ReadinessSlot) <= 64);

/// Operation::engine_word of a splice that waits for its pipe.
inline constexpr std::uint32_t kHeld = 1;

class ReadinessEngine : public Engine {
public:
    explicit ReadinessEngine(ReadyList& ready) noexcept : Engine(ready) {}

    SlotHandle attach(int fd, DescriptorKind kind) noexcept override;
    int socket_mode() const noexcept override;
    void note_mode(SlotHandle slot) noexcept override;
    void detach(SlotHandle slot, Detach how, CloseOperation* closing) noexcept override;
    Start submit(Operation& operation) noexcept override;
    bool attempt_now(Operation& operation) noexcept override;
    void forget_untried(Operation& operation) noexcept override;
    int send_now(SlotHandle slot, std::span<const std::byte> bytes) noexcept override;
    void cancel(Operation& operation) noexcept override;
    void cancel_input(SlotHandle slot) noexcept override;
    void shut_down() noexcept override;
    void add_to(LoopStatistics& statistics) const noexcept override;

protected:
    /// An operation was parked on `slot`. Answers 0, or an errno when the kernel refuses to watch
    /// it.
    virtual int parked(SlotHandle handle, ReadinessSlot& slot) noexcept = 0;
    /// The last operation of a direction has left `slot`.
    virtual void unparked(SlotHandle, ReadinessSlot&) noexcept {}
    /// `slot` is about to be freed; its descriptor is still open.
    virtual void detached(ReadinessSlot& slot, Detach how) noexcept = 0;

    /// What the kernel was asked about the slot's descriptor may be gone: it is to be asked anew.
    virtual void forget_interest(ReadinessSlot&) noexcept {}

    /// Whether take_events() hears of POLLERR and POLLHUP.
    virtual bool tells_errors() const noexcept { return true; }

    /// The kernel's poll bits for `slot`. (Those of epoll are the same.)
    void take_events(SlotHandle handle, ReadinessSlot& slot, unsigned events) noexcept;
    void fail(OperationList& list, int result) noexcept;
    /// All that waits on `slot` ends with `result`.
    void fail_all(ReadinessSlot& slot, int result) noexcept;
    /// At the beginning of each wait, when what events have changed may be changed again.
    void free_unused_pipes() noexcept;

    SlotTable<ReadinessSlot> slots_;
    LoopStatistics counted_;

private:
    int try_now(ReadinessSlot& slot, Operation& operation) noexcept;
    int make_nonblocking(ReadinessSlot& slot) noexcept;
    void push_receive(ReadinessSlot& slot, Operation& operation) noexcept;
    bool defer_receive(ReadinessSlot& slot) noexcept;
    void try_reads(ReadinessSlot& slot) noexcept;
    void serve_next(SlotHandle handle, ReadinessSlot& slot) noexcept;
    void finish_connect(ReadinessSlot& slot, unsigned events) noexcept;
    void try_parked(ReadinessSlot& slot, OperationList& parked_list, bool& may) noexcept;

    // Splices that wait for their pipe. See readiness_pipes.cc.
    bool waits_for_pipe(ReadinessSlot& slot, Operation& operation, int& result) noexcept;
    SlotHandle take_pipe(int fd) noexcept;
    int hold(ReadinessSlot& slot, SpliceOperation& operation) noexcept;
    Operation* take_held(ReadinessSlot& slot, bool is_read) noexcept;
    void pipe_is_ready(const ReadinessSlot& pipe) noexcept;
    void fail_held(ReadinessSlot& slot, bool is_read, int result) noexcept;

    LentPool lent_;
    std::vector<std::uint32_t> unused_pipes_;  // to be freed before the next wait
    std::uint32_t pipe_count_ = 0;
};

}  // namespace berth::internal
