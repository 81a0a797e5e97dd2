// SPDX-License-Identifier: Apache-2.0
#pragma once

// An eventfd that makes a sleeping engine wake up, with at most one signal under way.

#include <berth/descriptor.h>
#include <berth/error.h>

#include <atomic>
#include <cstdint>

namespace berth::internal {

class Wakeup {
public:
    /// None: nobody waits for it.
    Wakeup() noexcept = default;
    static Result<Wakeup> open();

    Wakeup(Wakeup&& other) noexcept : descriptor_(std::move(other.descriptor_)) {}

    int fd() const noexcept { return descriptor_.get(); }
    /// Any thread.
    void signal() noexcept;
    /// The engine has seen it: the next signal() is a new one. Reads the eventfd when it
    /// `must_be_read` (a level-triggered engine would see it for ever).
    void acknowledge(bool must_be_read) noexcept;
    std::uint64_t signal_count() const noexcept {
        return signal_count_.load(std::memory_order_relaxed);
    }

private:
    explicit Wakeup(Descriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

    Descriptor descriptor_;
    std::atomic<bool> is_signalled_{false};
    std::atomic<std::uint64_t> signal_count_{0};
};

}  // namespace berth::internal
