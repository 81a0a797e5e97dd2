// SPDX-License-Identifier: Apache-2.0
#pragma once

// What another thread posts to a library that can wake its loop but brings no queue for what the
// loop is woken for. A post pays for the wakeup only when nothing was waiting: until the loop has
// taken everything, an earlier post has woken it already.

#include "bench/programs/program.h"

#include <atomic>
#include <utility>

namespace berth::bench {

class PostStack {
public:
    /// Any thread. True: the loop is to be woken.
    bool push(Posted& item) noexcept {
        Posted* newest = newest_.load(std::memory_order_relaxed);
        do {
            item.next = newest;
        } while (!newest_.compare_exchange_weak(newest, &item, std::memory_order_release,
                                                std::memory_order_relaxed));
        return newest == nullptr;
    }

    /// Loop thread: gives everything to the job, oldest first. False after the job's last item.
    bool deliver(WakeJob& job) {
        bool wants_more = true;
        for (Posted* item = take_oldest_first(); item != nullptr;) {
            Posted* const next = item->next;
            wants_more = job.arrived(*item) && wants_more;
            item = next;
        }
        return wants_more;
    }

private:
    Posted* take_oldest_first() noexcept {
        Posted* newest = newest_.exchange(nullptr, std::memory_order_acquire);
        Posted* oldest = nullptr;
        while (newest != nullptr) {
            Posted* const next = std::exchange(newest->next, oldest);
            oldest = std::exchange(newest, next);
        }
        return oldest;
    }

    std::atomic<Posted*> newest_ = nullptr;
};

}  // namespace berth::bench
