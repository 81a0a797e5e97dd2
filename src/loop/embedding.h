// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loop inside a foreign one: an epoll that holds the engine's own descriptor and a timerfd for
// the next timer, so that one descriptor tells of everything there is to do.

#include <berth/descriptor.h>
#include <berth/error.h>

#include <cstdint>

namespace berth::internal {

class Embedding {
public:
    bool is_active() const noexcept { return outer_.is_open(); }
    int descriptor() const noexcept { return outer_.get(); }
    /// **Errors:** descriptors_exhausted.
    Result<void> open(int engine_descriptor);
    /// Readable from `deadline_ns` of CLOCK_MONOTONIC on; 0: now, ~0: only when the engine is.
    void set_next(std::uint64_t deadline_ns) noexcept;

private:
    Descriptor outer_;
    Descriptor timer_;
    std::uint64_t next_ns_ = ~std::uint64_t{0};
};

}  // namespace berth::internal
