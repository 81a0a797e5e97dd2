// SPDX-License-Identifier: Apache-2.0
#include "src/loop/timer_wheel.h"

#include <algorithm>

namespace berth::internal {

TimerWheel::TimerWheel(std::uint64_t now_ns) noexcept : now_ns_(now_ns), tick_(now_ns / kTickNs) {
    std::ranges::for_each(anchors_, TimerList::reset);
}

TimerWheel::~TimerWheel() { BERTH_ASSERT(is_empty()); }

void TimerWheel::expire(std::uint64_t now_ns, TimerList& out) noexcept {
    const std::uint64_t end_ns = std::max(now_ns, now_ns_);
    const std::uint64_t end_tick = end_ns / kTickNs;
    TimerList::Appender appender(out);
    for (Slot slot = first_slot(); slot.tick <= end_tick; slot = first_slot()) {
        // The current slot holds what was due at once, as seen from the time of the last call.
        if (slot.tick != tick_) {
            tick_ = slot.tick;
            now_ns_ = slot.tick * kTickNs;
        }
        empty(slot, appender);
    }
    tick_ = end_tick;
    now_ns_ = end_ns;
}

/// The slot's first tick is the current one. What is not due goes to a later slot, of a lower level
/// or of a later tick, so never back into this one.
void TimerWheel::empty(const Slot& slot, TimerList::Appender& out) noexcept {
    TimerNode& list = anchor(slot.level, slot.digit);
    TimerNode* node = list.next;
    TimerList::reset(list);
    occupied_[slot.level] &= ~(std::uint64_t{1} << slot.digit);
    while (node != &list) {
        TimerNode& current = *node;
        node = node->next;
        if (current.deadline_ns <= now_ns_) {
            out.append(current);
        } else {
            put(current);
        }
    }
}

void TimerWheel::take_all(TimerList& out) noexcept {
    TimerList::Appender appender(out);
    for (Slot slot = first_slot(); slot.tick != kNever; slot = first_slot()) {
        TimerNode& list = anchor(slot.level, slot.digit);
        while (list.next != &list) {
            TimerNode& node = *list.next;
            cancel(node);
            appender.append(node);
        }
    }
}

}  // namespace berth::internal
