// SPDX-License-Identifier: Apache-2.0
#pragma once

// The loop's timers. A million of them must cost no more each than ten, and an idle timeout that is
// pushed back by every message must cost next to nothing: a hierarchical timing wheel.
//
// Time is cut into ticks of a millisecond. A tick is a number of 64-bit digits in base 64; a node
// waits at the level of the highest digit in which its tick differs from the current one, in the
// slot of that digit:
//
//   level 0   64 slots of 1 ms         now ──▶ . . # . . # …
//   level 1   64 slots of 64 ms                . # . . . . …   one bit for each slot: occupied
//   level 2   64 slots of 4.1 s
//   …
//   level 6   64 slots of 2.2 years
//   level 7   5 slots of 139 years: to the end of what 64 bits of nanoseconds can say
//
// When the current tick enters a slot, the slot's nodes move to lower levels. So all nodes of a
// tick are always in the same slot, all occupied slots lie ahead, and the lowest occupied level
// holds what comes first: no tick without nodes is ever looked at.
//
// Promised:
//
// - A deadline is due from the first full millisecond at or after it. So a node is never given out
//   early, and less than a millisecond late. A deadline that the `now_ns` of the last expire() has
//   already reached is due at the next expire(), whatever its `now_ns`.
// - expire() gives out due nodes in the order of their ticks, however far it jumps, and nodes of
//   one tick in the order in which they were scheduled. What was due when it was scheduled comes
//   first.
//
// Not promised: the order of deadlines within a tick (see precise_timers.h); the place of a
// postponed node among those of its new tick; that a deadline within the last millisecond that 64
// bits can say is ever due.
//
// The wheel reads no clock: times are nanoseconds of CLOCK_MONOTONIC, or of any other clock, as its
// caller gives them. It allocates nothing; nodes belong to their owners. 15 KiB, does not move.
//
// Source: Varghese and Lauck 1987, "Hashed and hierarchical timing wheels", scheme 7.

#include "src/base/assert.h"
#include "src/loop/timer_list.h"

#include <berth/operation.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace berth::internal {

class TimerWheel {
public:
    static constexpr std::uint64_t kTickNs = 1'000'000;
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    explicit TimerWheel(std::uint64_t now_ns) noexcept;
    /// All nodes must be gone; see take_all().
    ~TimerWheel();
    TimerWheel(const TimerWheel&) = delete;
    TimerWheel& operator=(const TimerWheel&) = delete;

    /// `node` must not be scheduled. **Cost:** O(1).
    void schedule(TimerNode& node, std::uint64_t deadline_ns) noexcept {
        BERTH_ASSERT(!is_scheduled(node));
        node.deadline_ns = deadline_ns;
        put(node);
    }

    /// Also for a node that expire() has moved to a list and nobody has popped yet. False when the
    /// node was not scheduled. **Cost:** O(1).
    bool cancel(TimerNode& node) noexcept {
        if (!is_scheduled(node)) {
            return false;
        }
        if (node.link == &node.next->next) {
            mark_empty(*node.next);
        }
        unlink_node(node);
        return true;
    }

    /// Gives a node another deadline; schedules it when it is not scheduled, and takes it back when
    /// expire() has moved it to a list and nobody has popped it yet. A later deadline is only
    /// noted: the node stays in its slot and moves when its old deadline comes. **Cost:** O(1).
    void postpone(TimerNode& node, std::uint64_t deadline_ns) noexcept {
        // A node that was given out has a place beyond kFarthestNs.
        if (is_scheduled(node) && deadline_ns > node.place && deadline_ns > now_ns_ &&
            deadline_ns <= kFarthestNs) {
            node.deadline_ns = deadline_ns;
            return;
        }
        cancel(node);
        schedule(node, deadline_ns);
    }

    static bool is_scheduled(const TimerNode& node) noexcept {
        return internal::is_scheduled(node);
    }
    bool is_empty() const noexcept { return first_slot().tick == kNever; }

    /// When to call expire() next: at what time the first node is due, or earlier when the node
    /// that comes first was postponed or must still change its level (so a node whose deadline is
    /// 64 ms away or more costs up to a wakeup for each level). Never later. In the past when a
    /// node is due already, kNever when there is nothing to wait for. **Cost:** O(levels).
    std::uint64_t next_expiry_ns() const noexcept {
        const std::uint64_t tick = first_slot().tick;
        return tick <= kLastTick ? tick * kTickNs : kNever;
    }

    /// Appends every node that is due at `now_ns` to `out`. A time before that of an earlier call
    /// counts as that time. **Cost:** O(nodes that come out or change their level), not O(time).
    void expire(std::uint64_t now_ns, TimerList& out) noexcept;

    /// Appends all nodes to `out`, roughly in the order of their deadlines.
    void take_all(TimerList& out) noexcept;

private:
    static constexpr unsigned kDigitBits = 6;
    static constexpr unsigned kDigits = 1U << kDigitBits;
    static constexpr unsigned kLevels = 8;
    static constexpr std::uint64_t kFarthestNs = kGivenOut - 1;
    static constexpr std::uint64_t kLastTick = kNever / kTickNs;
    /// A deadline within the last millisecond counts as the tick after kLastTick.
    static constexpr unsigned kTopSlots = ((kLastTick + 1) >> ((kLevels - 1) * kDigitBits)) + 1;
    static constexpr std::size_t kSlots = (kLevels - 1) * kDigits + kTopSlots;
    static_assert(kTopSlots <= kDigits);

    struct Slot {
        std::uint64_t tick = kNever;  // the first of its ticks
        unsigned level = 0;
        unsigned digit = 0;
    };

    /// The occupied slot that comes first.
    Slot first_slot() const noexcept {
        for (unsigned level = 0; level < kLevels; ++level) {
            if (const std::uint64_t occupied = occupied_[level]; occupied != 0) {
                const auto digit = static_cast<unsigned>(std::countr_zero(occupied));
                const unsigned shift = level * kDigitBits;
                const std::uint64_t higher = tick_ >> shift >> kDigitBits << kDigitBits;
                return {(higher | digit) << shift, level, digit};
            }
        }
        return {};
    }

    TimerNode& anchor(unsigned level, unsigned digit) noexcept {
        return anchors_[level * kDigits + digit];
    }

    /// The current tick for what is due already; its slot is the next that expire() looks into.
    std::uint64_t tick_of(std::uint64_t deadline_ns) const noexcept {
        return deadline_ns <= now_ns_ ? tick_ : (deadline_ns - 1) / kTickNs + 1;
    }

    void put(TimerNode& node) noexcept {
        const std::uint64_t tick = tick_of(node.deadline_ns);
        const auto width = static_cast<unsigned>(std::bit_width((tick ^ tick_) | 1));
        const unsigned level = (width - 1) / kDigitBits;
        const unsigned digit = (tick >> (level * kDigitBits)) % kDigits;
        occupied_[level] |= std::uint64_t{1} << digit;
        node.place = node.deadline_ns;
        TimerList::append(anchor(level, digit), node);
    }

    /// `list` is about to lose its last node; it may be a slot of this wheel or a list of others.
    void mark_empty(const TimerNode& list) noexcept {
        const TimerNode* const first = anchors_.data();
        if (std::less<>()(&list, first) || !std::less<>()(&list, first + kSlots)) {
            return;
        }
        const auto index = static_cast<unsigned>(&list - first);
        occupied_[index / kDigits] &= ~(std::uint64_t{1} << (index % kDigits));
    }

    void empty(const Slot& slot, TimerList::Appender& out) noexcept;

    std::array<std::uint64_t, kLevels> occupied_{};  // index = level, bit = digit
    std::uint64_t now_ns_;                           // as of the last expire()
    std::uint64_t tick_;                             // the last one whose nodes were given out
    std::array<TimerNode, kSlots> anchors_;          // index = level × 64 + digit
};

}  // namespace berth::internal
