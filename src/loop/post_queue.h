// SPDX-License-Identifier: Apache-2.0
#pragma once

// What other threads want run on the loop's: a stack that any thread pushes to with one
// compare-and-swap and that the loop takes whole, then reversed, so that everything runs in the
// order posted.

#include <berth/operation.h>

#include <atomic>

namespace berth::internal {

class PostQueue {
public:
    /// Any thread.
    void push(Operation& operation) noexcept {
        Operation* top = top_.load(std::memory_order_relaxed);
        do {
            operation.next = top;
        } while (!top_.compare_exchange_weak(top, &operation, std::memory_order_seq_cst,
                                             std::memory_order_relaxed));
    }

    bool is_empty() const noexcept { return top_.load(std::memory_order_seq_cst) == nullptr; }

    /// The first posted, linked through `next`; null when there is none. Loop thread only.
    Operation* take_all() noexcept {
        Operation* newest = top_.exchange(nullptr, std::memory_order_acquire);
        Operation* oldest = nullptr;
        while (newest != nullptr) {
            Operation* older = newest->next;
            newest->next = oldest;
            oldest = newest;
            newest = older;
        }
        return oldest;
    }

private:
    std::atomic<Operation*> top_{nullptr};
};

}  // namespace berth::internal
