// SPDX-License-Identifier: Apache-2.0
#pragma once

// The timers that cannot wait for the next full millisecond of the TimerWheel: a 4-ary heap, the
// deadlines beside the pointers, so that a search for the smallest child looks at one or two cache
// lines and at no node. The nodes are those of the wheel: while a node is in the heap its `place`
// is its index there, which is how a cancellation finds it.
//
// Promised: a node is given out at the first expire() whose `now_ns` has reached its deadline, in
// the order of the deadlines. Not promised: any order among nodes of the same nanosecond.
//
// No clock is read. Memory grows with the most nodes there were at a time, 16 bytes each, at least
// doubling; schedule() is where it can be missing.

#include "src/loop/timer_list.h"

#include <berth/error.h>
#include <berth/operation.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::internal {

class PreciseTimers {
public:
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    PreciseTimers() = default;
    /// All nodes must be gone; see take_all().
    ~PreciseTimers();
    PreciseTimers(const PreciseTimers&) = delete;
    PreciseTimers& operator=(const PreciseTimers&) = delete;

    /// Makes room for `count` nodes in all. **Errors:** out_of_memory.
    Result<void> reserve(std::size_t count) noexcept;

    /// `node` must not be scheduled. **Errors:** out_of_memory; then it is not scheduled.
    /// **Cost:** O(log n).
    Result<void> schedule(TimerNode& node, std::uint64_t deadline_ns) noexcept;

    /// Also for a node that expire() has moved to a list and nobody has popped yet. False when the
    /// node was not scheduled. **Cost:** O(log n).
    bool cancel(TimerNode& node) noexcept;

    /// Gives a node another deadline; schedules it when it is not scheduled, and takes it back when
    /// expire() has moved it to a list and nobody has popped it yet. **Errors:** out_of_memory,
    /// never for a node in the heap; then it is not scheduled. **Cost:** O(log n).
    Result<void> postpone(TimerNode& node, std::uint64_t deadline_ns) noexcept;

    static bool is_scheduled(const TimerNode& node) noexcept {
        return internal::is_scheduled(node);
    }
    bool is_empty() const noexcept { return heap_.empty(); }

    /// The earliest deadline; kNever when there is none.
    std::uint64_t next_expiry_ns() const noexcept {
        return heap_.empty() ? kNever : heap_.front().deadline_ns;
    }

    /// Appends every node whose deadline is at or before `now_ns` to `out`. **Cost:** O(log n) for
    /// each of them.
    void expire(std::uint64_t now_ns, TimerList& out) noexcept;

    /// Appends all nodes to `out`, in the order of their deadlines.
    void take_all(TimerList& out) noexcept { expire(kNever, out); }

private:
    static constexpr std::size_t kChildren = 4;
    static constexpr std::size_t kFirstCapacity = 64;

    struct Entry {
        std::uint64_t deadline_ns;
        TimerNode* node;
    };

    static bool is_in_heap(const TimerNode& node) noexcept { return node.link == &node.next; }

    void put(std::size_t index, const Entry& entry) noexcept {
        heap_[index] = entry;
        entry.node->place = index;
    }
    /// Each moves `entry`, which belongs at `index` or up (down) from there, to its place.
    void sift_up(std::size_t index, const Entry& entry) noexcept;
    void sift_down(std::size_t index, const Entry& entry) noexcept;
    void sift(std::size_t index, const Entry& entry) noexcept;
    void remove(TimerNode& node) noexcept;

    std::vector<Entry> heap_;
};

}  // namespace berth::internal
