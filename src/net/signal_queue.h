// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is behind a SignalWatch: the signalfd, and who waits for a signal. The descriptor is polled
// only while somebody waits, and read for as many signals as are waited for; a signal that another
// reader took first is waited for again.

#include "src/loop/loop_state.h"

#include <berth/descriptor.h>
#include <berth/signals.h>

#include <poll.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <span>

namespace berth::internal {

class SignalQueue {
public:
    static Result<std::unique_ptr<SignalQueue>> open(LoopState& loop, std::span<const int> signals);
    ~SignalQueue();
    SignalQueue(const SignalQueue&) = delete;
    SignalQueue& operator=(const SignalQueue&) = delete;

    Start wait(SignalOperation& operation, Deadline deadline) noexcept;

private:
    /// Signals that this process watches, in a set that no two watches share.
    class Claim {
    public:
        Claim() noexcept = default;
        Claim(const Claim&) = delete;
        Claim& operator=(const Claim&) = delete;
        ~Claim();
        /// **Errors:** invalid_argument.
        Result<void> add(int signal);
        const sigset_t& set() const noexcept { return set_; }
        bool is_empty() const noexcept { return bits_ == 0; }

    private:
        std::uint64_t bits_ = 0;  // bit n - 1: signal n
        sigset_t set_{};
    };

    class ReadyOperation final : public PollOperation {
    public:
        explicit ReadyOperation(SignalQueue& of) noexcept
            : PollOperation(&SignalQueue::on_ready), queue(of) {
            events = POLLIN;
            always_completes = true;
            keeps_alive = false;
        }
        SignalQueue& queue;
    };

    explicit SignalQueue(LoopState& loop) noexcept : loop_(loop), ready_(*this) {}
    static void on_ready(Operation& operation) noexcept;
    Result<void> start();
    bool take(Signal& signal) noexcept;
    void serve() noexcept;
    void fail_all(int result) noexcept;

    LoopState& loop_;
    Claim claim_;
    Descriptor descriptor_;
    SlotHandle slot_;
    sigset_t blocked_{};  // by this watch, not before it
    bool has_blocked_ = false;
    OperationList waiting_;
    ReadyOperation ready_;
};

}  // namespace berth::internal
