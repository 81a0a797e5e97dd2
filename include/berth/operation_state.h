// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the engines and the loop know of an operation. Users see it through Operation; see
// operation.h.

#include <berth/export.h>

#include <cstdint>

namespace berth {

/// What a submission answers.
enum class Start : std::uint8_t { done, pending };

enum class OperationKind : std::uint8_t {
    none,
    accept,
    connect,
    receive,
    receive_lent,
    send,
    receive_from,
    send_to,
    receive_batch,
    send_batch,
    poll,
    read,
    write,
    splice,
    send_file,
    close,
    timer,
    wait,
    post,
};

/// The lower-case name of an operation, such as "receive".
BERTH_API const char* to_string(OperationKind kind) noexcept;

class Operation;

namespace internal {

class LoopState;
class OperationList;

/// Names a socket of an engine; a socket that was closed has no handle any more, whatever became of
/// its place and its number.
struct SlotHandle {
    static constexpr std::uint32_t kNone = ~0U;

    std::uint32_t index = kNone;
    std::uint32_t generation = 0;

    bool is_valid() const noexcept { return index != kNone; }
    friend bool operator==(const SlotHandle&, const SlotHandle&) = default;
};

enum class OperationStage : std::uint8_t { idle, waiting, ready };

/// A place in the loop's timers; see src/loop/timer_wheel.h.
struct TimerNode {
    TimerNode* next = nullptr;
    TimerNode** link = nullptr;  // what points to this node; null: not scheduled
    std::uint64_t deadline_ns = 0;
    std::uint64_t place = 0;  // the timers' own
};

/// What the engines and the loop know of an operation.
struct OperationState {
    using Completion = void (*)(Operation& operation) noexcept;

    Operation* next = nullptr;      // in the one list it is on
    Operation* previous = nullptr;  // in a list of an engine
    Completion complete = nullptr;
    LoopState* loop_state = nullptr;  // set while it is pending; an awaiter's always
    SlotHandle slot;
    int result = 0;         // what the kernel answered, or -errno
    int cancel_reason = 0;  // -ECANCELED or -ETIMEDOUT once it is to end early
    OperationKind kind = OperationKind::none;
    OperationStage stage = OperationStage::idle;
    bool always_completes = false;  // never answer `done`
    bool keeps_alive = true;        // Loop::run() goes on while it is pending
    bool is_precise = false;        // its deadline is in the precise timers
    bool needs_attempt = false;     // it is on the ready list, but not tried yet
    std::uint32_t engine_word = 0;  // the engine's own
    TimerNode timer;                // its deadline, while it has one
};

}  // namespace internal

}  // namespace berth
