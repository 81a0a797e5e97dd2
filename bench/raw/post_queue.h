// SPDX-License-Identifier: Apache-2.0
#pragma once

// Many threads push, the loop's thread takes all at once. The eventfd is written only for a loop
// that sleeps or is about to: a post to a loop that is awake is one exchange.

#include "bench/programs/program.h"

#include <berth/descriptor.h>

#include <sys/eventfd.h>
#include <cerrno>

#include <atomic>

namespace berth::bench::raw {

class PostQueue {
public:
    static Result<PostQueue> open() {
        Descriptor wakeup(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        if (!wakeup.is_open()) {
            return std::unexpected(Error::from_errno(errno, "open", "an eventfd"));
        }
        return PostQueue(std::move(wakeup));
    }
    // Only before it is used by two threads.
    PostQueue(PostQueue&& other) noexcept : wakeup_(std::move(other.wakeup_)) {}
    PostQueue& operator=(PostQueue&&) = delete;

    int descriptor() const noexcept { return wakeup_.get(); }

    /// WakeJob::Post; any thread.
    static void post(void* queue, Posted& item) { static_cast<PostQueue*>(queue)->push(item); }

    /// What was posted since, oldest first; null for nothing. Loop thread only, as all that
    /// follows.
    Posted* take_all() noexcept {
        Posted* newest = newest_.load(std::memory_order_relaxed) == nullptr
                             ? nullptr
                             : newest_.exchange(nullptr, std::memory_order_acquire);
        Posted* oldest = nullptr;
        while (newest != nullptr) {
            Posted* const next = newest->next;
            newest->next = oldest;
            oldest = newest;
            newest = next;
        }
        return oldest;
    }

    /// False: something has come meanwhile, do not sleep.
    bool prepare_to_sleep() noexcept {
        is_sleeping_.store(true, std::memory_order_seq_cst);
        if (newest_.load(std::memory_order_seq_cst) == nullptr) {
            return true;
        }
        woke_up();
        return false;
    }
    void woke_up() noexcept { is_sleeping_.store(false, std::memory_order_relaxed); }
    /// For an engine that reports the eventfd as long as it is not zero.
    void clear_wakeup() noexcept {
        eventfd_t count = 0;
        ::eventfd_read(wakeup_.get(), &count);
    }

private:
    explicit PostQueue(Descriptor wakeup) noexcept : wakeup_(std::move(wakeup)) {}

    void push(Posted& item) noexcept {
        Posted* newest = newest_.load(std::memory_order_relaxed);
        do {
            item.next = newest;
        } while (!newest_.compare_exchange_weak(newest, &item, std::memory_order_seq_cst,
                                                std::memory_order_relaxed));
        if (is_sleeping_.load(std::memory_order_seq_cst) &&
            is_sleeping_.exchange(false, std::memory_order_seq_cst)) {
            ::eventfd_write(wakeup_.get(), 1);
        }
    }

    std::atomic<Posted*> newest_ = nullptr;
    std::atomic<bool> is_sleeping_ = false;
    Descriptor wakeup_;
};

}  // namespace berth::bench::raw
