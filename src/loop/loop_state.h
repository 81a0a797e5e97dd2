// SPDX-License-Identifier: Apache-2.0
#pragma once

// The loop behind berth::Loop: what is ready, what is due, what was posted, and in which order.

#include "src/engine/engine.h"
#include "src/loop/embedding.h"
#include "src/loop/post_memory.h"
#include "src/loop/post_queue.h"
#include "src/loop/precise_timers.h"
#include "src/loop/timer_wheel.h"

#include <berth/loop.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace berth::internal {

/// Base of what src/net keeps for each loop.
class LoopExtension {
public:
    virtual ~LoopExtension() = default;
};

class LoopState {
public:
    static Result<std::unique_ptr<LoopState>> create(const LoopOptions& options);
    ~LoopState();
    LoopState(const LoopState&) = delete;
    LoopState& operator=(const LoopState&) = delete;

    // Sockets.
    /// Makes a descriptor known; it stays the caller's until detach(). **Errors:** out_of_memory,
    /// descriptors_exhausted.
    Result<SlotHandle> attach(int fd, DescriptorKind kind) noexcept;
    /// SOCK_NONBLOCK or 0: how to open sockets for this loop. Those that were need not be changed;
    /// say so by attach_own().
    int socket_mode() const noexcept { return engine_->socket_mode(); }
    Result<SlotHandle> attach_own(int fd, DescriptorKind kind) noexcept;
    void detach(SlotHandle slot, Detach how, CloseOperation* closing = nullptr) noexcept;

    // Operations.
    /// Starts `operation` on `slot`; it is cancelled with -ETIMEDOUT at `deadline`.
    Start submit(Operation& operation, SlotHandle slot, Deadline deadline) noexcept;
    /// See Engine::send_now().
    int send_now(SlotHandle slot, std::span<const std::byte> bytes) noexcept {
        check_thread();
        return engine_->send_now(slot, bytes);
    }
    /// Starts a timer: completes with 0 at `deadline`.
    void start_timer(Operation& timer, Deadline deadline) noexcept;
    /// Moves a timer's deadline, or starts it.
    void restart_timer(Operation& timer, Deadline deadline) noexcept;
    /// `operation` waits on `list` until end_wait(), or -ETIMEDOUT at `deadline`.
    void start_wait(WaitOperation& operation, OperationList& list, Deadline deadline) noexcept;
    void end_wait(WaitOperation& operation, int result) noexcept;
    /// Completes `operation` with `result` in the next iteration, without any engine.
    void complete_later(Operation& operation, int result) noexcept;
    void cancel(Operation& operation, int reason) noexcept;
    /// Cancels what waits for input on `slot`.
    void cancel_input(SlotHandle slot) noexcept;
    /// See Engine::take_unread().
    void take_unread(SlotHandle slot, std::vector<std::byte>& bytes) {
        begin_change();
        engine_->take_unread(slot, bytes);
    }
    /// Keeps run() going for something that is no pending operation of a user, until let_go().
    void hold() noexcept { ++hold_count_; }
    void let_go() noexcept { --hold_count_; }
    /// What holds the loop has submitted something. When nothing else keeps the loop alive, it does
    /// not sleep on it, but looks at once whether it is done.
    void note_unflushed() noexcept { has_unflushed_ = true; }
    /// The next iteration does not sleep: what was submitted reaches the kernel and is looked at.
    void hurry() noexcept { is_in_hurry_ = true; }
    /// Ends a pending operation now, without its completion; waits until the kernel has let go.
    void abandon(Operation& operation) noexcept;

    // Running.
    Result<void> run();
    Result<void> run_until(std::uint64_t deadline_ns);
    /// True when something was run.
    Result<bool> run_once(std::uint64_t deadline_ns);
    void stop() noexcept;
    void wake() noexcept;
    void post(Operation& operation) noexcept;
    PostMemory& post_memory() noexcept { return post_memory_; }
    Result<int> descriptor();

    std::uint64_t now_ns() noexcept {
        if (!is_now_known_) {
            read_clock();
        }
        return now_ns_;
    }
    TimePoint now() noexcept { return TimePoint(std::chrono::nanoseconds(now_ns())); }
    EngineKind engine_kind() const noexcept { return engine_->kind(); }
    std::string_view engine_note() const noexcept { return engine_note_; }
    LoopStatistics statistics() const noexcept;
    const LoopOptions& options() const noexcept { return options_; }

    /// What a layer above keeps for this loop; made by the first who asks, ends with the loop.
    template <class Extension>
    Extension& extension() {
        if (extension_ == nullptr) {
            extension_ = std::make_unique<Extension>();
        }
        return static_cast<Extension&>(*extension_);
    }

private:
    /// Results given at once before one goes by way of the ready list, so that two operations that
    /// never have to wait leave the others their turn.
    static constexpr unsigned kInlineBudget = 32;

    LoopState(const LoopOptions& options, std::string engine_note) noexcept;

    class Running;

    void check_thread() noexcept;
    /// Before anything is started or ended: a foreign loop that waits for this one must look again.
    void begin_change() noexcept;
    void read_clock() noexcept;
    void note_pending(Operation& operation) noexcept;
    void forget_pending(const Operation& operation) noexcept;
    void finish(Operation& operation) noexcept;
    static void close_accepted(const Operation& operation) noexcept;
    void schedule(Operation& operation, std::uint64_t deadline_ns) noexcept;
    void unschedule(Operation& operation) noexcept;
    void run_one(Operation& first) noexcept;
    void run_ready() noexcept;
    void take_late_results() noexcept;
    void expire_timers() noexcept;
    void run_posted() noexcept;
    bool is_idle() const noexcept;
    /// Other threads have posted something, or want the loop to stop.
    bool has_orders() const noexcept;
    std::uint64_t wait_deadline_ns(std::uint64_t deadline_ns) noexcept;
    int wait(std::uint64_t deadline_ns) noexcept;
    Result<bool> iterate(std::uint64_t deadline_ns);
    void remove_ready(Operation& operation) noexcept;
    void end_timers() noexcept;

    LoopOptions options_;
    std::string engine_note_;
    ReadyList ready_;
    OperationList running_;  // what this iteration still has to complete
    OperationList later_;    // what the next one will
    std::unique_ptr<Engine> engine_;
    const void* thread_ = nullptr;  // whose loop it is; null before its first use

    std::uint64_t now_ns_ = 0;
    bool is_now_known_ = false;
    bool is_running_ = false;
    unsigned inline_budget_ = kInlineBudget;
    std::uint64_t last_event_ns_ = 0;
    std::uint64_t iteration_count_ = 0;
    std::uint64_t completion_count_ = 0;
    std::uint32_t pending_count_ = 0;
    std::uint32_t alive_count_ = 0;  // pending ones that keep run() going

    std::uint32_t hold_count_ = 0;
    bool has_unflushed_ = false;
    bool is_in_hurry_ = false;
    std::unique_ptr<LoopExtension> extension_;

    TimerWheel wheel_;
    PreciseTimers precise_;
    Embedding embedding_;

    // Shared with other threads.
    PostMemory post_memory_;
    alignas(64) PostQueue posted_;
    std::atomic<bool> is_asleep_{false};
    std::atomic<bool> is_stop_requested_{false};
};

}  // namespace berth::internal
