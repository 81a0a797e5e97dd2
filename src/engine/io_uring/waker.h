// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes a ring's enter() return, from any thread: by a message to the ring, or, before kernel 6.13,
// by an eventfd that the ring watches. Only one wake-up is under way at a time.

#include "src/engine/io_uring/ring.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <atomic>
#include <cstdint>

namespace berth::internal {

class Waker {
public:
    Waker() noexcept = default;

    /// `ring_fd` must stay open. **Errors:** descriptors_exhausted.
    Result<void> open(int ring_fd, bool has_messages);

    /// Any thread.
    void wake() noexcept;
    std::uint64_t wake_count() const noexcept { return count_.load(std::memory_order_relaxed); }

    // For the ring's thread.
    /// When the ring has started: a wake() before that could not reach it. True: there was one.
    bool start(Ring& ring) noexcept;
    /// The completion of a wake-up; the next wake() is a new one.
    void on_wake(Ring& ring, unsigned flags) noexcept;
    /// Requests in flight that are not the engine's sockets'.
    unsigned in_flight_count() const noexcept { return is_watching_ ? 1 : 0; }
    /// Ends them.
    void stop(Ring& ring) noexcept;

private:
    void watch(Ring& ring) noexcept;
    bool send_message() const noexcept;

    int ring_fd_ = -1;
    Descriptor eventfd_;
    bool is_watching_ = false;
    bool is_stopped_ = false;
    std::atomic<bool> is_under_way_{false};
    std::atomic<std::uint64_t> count_{0};
};

}  // namespace berth::internal
