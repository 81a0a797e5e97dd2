// SPDX-License-Identifier: Apache-2.0
#include <berth/timer.h>

#include "src/loop/loop_state.h"

namespace berth {

void TimerOperation::start(internal::LoopState* loop, Deadline deadline) noexcept {
    loop->start_timer(*this, deadline);
}

void TimerOperation::restart(internal::LoopState* loop, Deadline deadline) noexcept {
    loop->restart_timer(*this, deadline);
}

void TimerOperation::start_next(internal::LoopState* loop,
                                std::chrono::nanoseconds period) noexcept {
    const auto period_ns = static_cast<std::uint64_t>(period.count());
    std::uint64_t next_ns = timer.deadline_ns + period_ns;
    const std::uint64_t now_ns = loop->now_ns();
    if (next_ns <= now_ns) {
        next_ns += ((now_ns - next_ns) / period_ns + 1) * period_ns;
    }
    start(loop, Deadline::at(TimePoint(std::chrono::nanoseconds(next_ns))));
}

}  // namespace berth
