// SPDX-License-Identifier: Apache-2.0
#include "src/loop/precise_timers.h"

#include "src/base/assert.h"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace berth::internal {
namespace {

std::unexpected<Error> out_of_memory() noexcept {
    return std::unexpected(
        Error(Errc::out_of_memory, "schedule timer", {}, 0, "the heap of timers cannot grow"));
}

}  // namespace

PreciseTimers::~PreciseTimers() { BERTH_ASSERT(is_empty()); }

Result<void> PreciseTimers::reserve(std::size_t count) noexcept {
    try {
        heap_.reserve(count);
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    } catch (const std::length_error&) {
        return out_of_memory();
    }
    return {};
}

Result<void> PreciseTimers::schedule(TimerNode& node, std::uint64_t deadline_ns) noexcept {
    BERTH_ASSERT(!is_scheduled(node));
    const std::size_t index = heap_.size();
    if (index == heap_.capacity()) {
        BERTH_TRY(reserve(std::max(kFirstCapacity, 2 * index)));
    }
    node.deadline_ns = deadline_ns;
    TimerList::reset(node);
    heap_.push_back({deadline_ns, &node});
    sift_up(index, {deadline_ns, &node});
    return {};
}

bool PreciseTimers::cancel(TimerNode& node) noexcept {
    if (!is_scheduled(node)) {
        return false;
    }
    if (is_in_heap(node)) {
        remove(node);
    }
    unlink_node(node);
    return true;
}

Result<void> PreciseTimers::postpone(TimerNode& node, std::uint64_t deadline_ns) noexcept {
    if (is_in_heap(node)) {
        node.deadline_ns = deadline_ns;
        sift(node.place, {deadline_ns, &node});
        return {};
    }
    cancel(node);
    return schedule(node, deadline_ns);
}

void PreciseTimers::expire(std::uint64_t now_ns, TimerList& out) noexcept {
    TimerList::Appender appender(out);
    while (!heap_.empty() && heap_.front().deadline_ns <= now_ns) {
        TimerNode& node = *heap_.front().node;
        remove(node);
        appender.append(node);
    }
}

void PreciseTimers::remove(TimerNode& node) noexcept {
    const std::size_t index = node.place;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (index < heap_.size()) {
        sift(index, last);
    }
}

void PreciseTimers::sift(std::size_t index, const Entry& entry) noexcept {
    const bool belongs_up =
        index > 0 && entry.deadline_ns < heap_[(index - 1) / kChildren].deadline_ns;
    belongs_up ? sift_up(index, entry) : sift_down(index, entry);
}

void PreciseTimers::sift_up(std::size_t index, const Entry& entry) noexcept {
    while (index > 0) {
        const std::size_t parent = (index - 1) / kChildren;
        if (heap_[parent].deadline_ns <= entry.deadline_ns) {
            break;
        }
        put(index, heap_[parent]);
        index = parent;
    }
    put(index, entry);
}

void PreciseTimers::sift_down(std::size_t index, const Entry& entry) noexcept {
    const std::size_t size = heap_.size();
    for (std::size_t child = kChildren * index + 1; child < size; child = kChildren * index + 1) {
        const std::size_t end = std::min(child + kChildren, size);
        std::size_t least = child;
        for (std::size_t other = child + 1; other < end; ++other) {
            least = heap_[other].deadline_ns < heap_[least].deadline_ns ? other : least;
        }
        if (entry.deadline_ns <= heap_[least].deadline_ns) {
            break;
        }
        put(index, heap_[least]);
        index = least;
    }
    put(index, entry);
}

}  // namespace berth::internal
