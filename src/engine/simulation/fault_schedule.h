// SPDX-License-Identifier: Apache-2.0
#pragma once

// What goes wrong in a simulation, and when.
//
//   FaultSchedule faults(seed);
//   faults.fail({.kind = CallKind::accept4, .nth = 2}, EMFILE);        // the second accept4()
//   faults.cut({.kind = CallKind::send, .fd = fd}, 7);                 // 7 bytes, no more
//   faults.delay({.kind = CallKind::recv, .times = kAlways}, 5ms);     // each recv() takes 5 ms
//   faults.set_rates({.short_read = 0.3, .interrupt = 0.1});           // by the seed's dice
//
// Scripted rules come first, in the order they were added; a call that no rule has changed is left
// to the dice. A scripted failure is an answer only; a `reset` or `timed_out` of the dice really
// breaks the connection. After an EAGAIN or a cut that the socket itself would not have answered,
// the descriptor's watchers are woken a microsecond later, as they are when the rest arrives:
// whoever waits for edges loses none.
//
// Cuts are for streams, pipes and files; datagrams come whole.

#include "src/engine/simulation/call_kind.h"
#include "src/engine/simulation/seeded_random.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::internal {

inline constexpr int kAnyDescriptor = -1;
inline constexpr unsigned kAlways = ~0U;

/// Calls `nth` .. `nth` + `times` − 1 of this kind (on this descriptor), counted from 1 since the
/// rule was added.
struct CallMatch {
    CallKind kind = CallKind::recv;
    int fd = kAnyDescriptor;
    unsigned nth = 1;
    unsigned times = 1;
};

/// Probabilities, 0 .. 1, for each call that may meet the fault.
struct FaultRates {
    double short_read = 0;
    double short_write = 0;
    double spurious_eagain = 0;     ///< Reading, writing, accept4() on a ready descriptor.
    double interrupt = 0;           ///< EINTR: reading, writing, accept4(), waiting.
    double spurious_readiness = 0;  ///< A wait that reports a descriptor which is not ready.
    double reset = 0;               ///< The TCP connection breaks by ECONNRESET.
    double timed_out = 0;           ///< The TCP connection breaks by ETIMEDOUT.
    double no_buffers = 0;          ///< ENOBUFS: socket(), writing to a socket.
    double no_descriptors = 0;      ///< EMFILE: socket(), accept4().
    double late_delivery = 0;       ///< What the call sends is under way longer.
    std::chrono::nanoseconds latest_delivery = std::chrono::milliseconds(10);  ///< At most that.
};

/// What a call is about to do, for the decision.
struct CallFacts {
    CallKind kind = CallKind::recv;
    int fd = -1;
    std::size_t size = 0;  // that the call could move
    bool is_byte_stream = false;
    bool is_socket = false;
    bool is_connection = false;
    bool is_ready = false;
};

/// What becomes of a call.
struct Fault {
    int error = 0;             // the answer; 0: the call is made
    int connection_error = 0;  // the connection breaks first
    std::size_t byte_limit = ~std::size_t{0};
    std::chrono::nanoseconds delay{0};     // passes before the call is made
    std::chrono::nanoseconds lateness{0};  // of what it sends
    bool is_spurious_readiness = false;

    bool is_cut() const noexcept { return byte_limit != ~std::size_t{0}; }
};

class FaultSchedule {
public:
    using Nanoseconds = std::chrono::nanoseconds;

    explicit FaultSchedule(std::uint64_t seed = 0) noexcept : random_(seed) {}

    /// The call answers `error` and does nothing.
    FaultSchedule& fail(const CallMatch& match, int error);
    /// The call moves at most `byte_count` bytes.
    FaultSchedule& cut(const CallMatch& match, std::size_t byte_count);
    /// The call takes `duration` of virtual time, in which the network goes on.
    FaultSchedule& delay(const CallMatch& match, Nanoseconds duration);
    /// What the call sends arrives `duration` later than it would.
    FaultSchedule& deliver_late(const CallMatch& match, Nanoseconds duration);
    /// For calls of every kind; replaces what was set before.
    FaultSchedule& set_rates(const FaultRates& rates);
    FaultSchedule& set_rates(CallKind kind, const FaultRates& rates);
    /// No rule and no rate is left.
    void clear();

    /// Calls that a rule or the dice have changed.
    std::uint64_t fault_count() const noexcept { return fault_count_; }

    /// Whether decide() could change anything at all.
    bool is_active() const noexcept { return !rules_.empty() || has_rates_; }
    /// Used by the simulated kernel, once for each call.
    Fault decide(const CallFacts& facts);
    /// Draws from the dice; `bound` >= 1.
    std::uint64_t draw_below(std::uint64_t bound) noexcept { return random_.below(bound); }

private:
    struct Rule {
        CallMatch match;
        Fault fault;
        std::uint64_t seen = 0;
    };

    FaultSchedule& add(const CallMatch& match, const Fault& fault);
    bool apply_rules(const CallFacts& facts, Fault& fault);
    bool roll(const CallFacts& facts, Fault& fault);
    bool roll_error(const CallFacts& facts, const FaultRates& rates, Fault& fault);
    bool roll_break(const CallFacts& facts, const FaultRates& rates, Fault& fault);
    bool roll_cut(const CallFacts& facts, const FaultRates& rates, Fault& fault);

    simulated::SeededRandom random_;
    std::vector<Rule> rules_;
    std::array<FaultRates, kCallKindCount> rates_{};
    bool has_rates_ = false;
    std::uint64_t fault_count_ = 0;
};

}  // namespace berth::internal
