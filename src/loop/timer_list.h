// SPDX-License-Identifier: Apache-2.0
#pragma once

// The lists that timers are kept in: circular, intrusive, first in first out. The list's own anchor
// stands where the last node's `next` and the first node's `link` lead, so a node leaves whichever
// list it is on by two stores, without asking which one it is.
//
//            anchor          first            last
//   ┌──▶ ┌──────────┐    ┌──────────┐    ┌──────────┐
//   │    │ next     │───▶│ next     │───▶│ next     │───┐   link: the address of the `next` that
//   │    └──────────┘    └──────────┘    └──────────┘   │   leads here; null in a node that is on
//   └───────────────────────────────────────────────────┘   no list
//
// A node in PreciseTimers' heap is on no list: it leads to itself.

#include "src/base/assert.h"

#include <berth/operation.h>

#include <array>
#include <bit>
#include <cstdint>

namespace berth::internal {

/// True from schedule() until the node is cancelled or popped from the list it was expired into.
inline bool is_scheduled(const TimerNode& node) noexcept { return node.link != nullptr; }

/// A node's `place` from expire() until it is popped: this bit, and the address of a node that is
/// popped some time later, or was to be.
inline constexpr std::uint64_t kGivenOut = std::uint64_t{1} << 63;

/// Takes a scheduled node off its list.
inline void unlink_node(TimerNode& node) noexcept {
    BERTH_ASSERT(is_scheduled(node));
    *node.link = node.next;
    node.next->link = node.link;
    node.link = nullptr;
}

/// What expire() fills. Stays where it is while there are nodes on it, and is emptied before it
/// goes.
class TimerList {
public:
    TimerList() noexcept { reset(anchor_); }
    ~TimerList() { BERTH_ASSERT(is_empty()); }
    TimerList(const TimerList&) = delete;
    TimerList& operator=(const TimerList&) = delete;

    bool is_empty() const noexcept { return anchor_.next == &anchor_; }

    /// The node that has been on the list longest, no longer scheduled; null when there is none.
    TimerNode* pop_front() noexcept {
        TimerNode* node = anchor_.next;
        if (node == &anchor_) {
            return nullptr;
        }
        // Of many nodes each is a cache miss, and the list alone names the next one too late.
        __builtin_prefetch(
            std::bit_cast<const void*>(static_cast<std::uintptr_t>(node->place & ~kGivenOut)), 1);
        unlink_node(*node);
        return node;
    }

    /// Appends what one call of expire() gives out. No node may leave the list meanwhile.
    class Appender {
    public:
        explicit Appender(TimerList& list) noexcept : list_(list) {}

        /// `node` must be on no list.
        void append(TimerNode& node) noexcept {
            node.place = kGivenOut;
            TimerList::append(list_.anchor_, node);
            TimerNode*& earlier = recent_[count_++ % kLead];
            if (earlier != nullptr) {
                earlier->place = kGivenOut | reinterpret_cast<std::uintptr_t>(&node);
            }
            earlier = &node;
        }

    private:
        static constexpr unsigned kLead = 8;

        TimerList& list_;
        std::array<TimerNode*, kLead> recent_{};
        unsigned count_ = 0;
    };

    static void reset(TimerNode& anchor) noexcept {
        anchor.next = &anchor;
        anchor.link = &anchor.next;
    }
    static void append(TimerNode& anchor, TimerNode& node) noexcept {
        node.next = &anchor;
        node.link = anchor.link;
        *anchor.link = &node;
        anchor.link = &node.next;
    }

private:
    TimerNode anchor_;
};

}  // namespace berth::internal
