// SPDX-License-Identifier: Apache-2.0
#pragma once

// The simulation's time, and what is to happen later in it. Time stands still until somebody moves
// it; events run in the order of their time, those of one time in the order they were scheduled.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace berth::internal::simulated {

using Nanoseconds = std::chrono::nanoseconds;

class VirtualClock {
public:
    using Event = std::function<void()>;
    /// When, and the how-manieth of all events; {0, 0}: none.
    using EventId = std::pair<Nanoseconds, std::uint64_t>;

    /// Since the boot of the simulated host; starts at 1,000 s.
    Nanoseconds now() const noexcept { return now_; }
    /// 0 is soon: run_due() will run it.
    EventId schedule(Nanoseconds delay, Event event);
    /// Of an event that has run or was cancelled: does nothing.
    void cancel(EventId& id);
    std::optional<Nanoseconds> next_event() const;
    /// Runs what is due now, also what that schedules for now.
    void run_due();
    /// Moves to `time`, running what lies between at its own time.
    void run_until(Nanoseconds time);
    /// CLOCK_REALTIME jumps; nothing else notices.
    void step_wall_clock(Nanoseconds by) noexcept { wall_offset_ += by; }
    /// Nothing for a clock that measures no time of day, such as CLOCK_PROCESS_CPUTIME_ID.
    std::optional<timespec> read(clockid_t clock) const noexcept;

private:
    Nanoseconds now_ = std::chrono::seconds(1'000);
    Nanoseconds wall_offset_ = std::chrono::seconds(1'800'000'000);
    std::uint64_t scheduled_count_ = 0;
    std::map<EventId, Event> events_;
};

timespec to_timespec(Nanoseconds time) noexcept;
/// Nothing for one that the kernel refuses.
std::optional<Nanoseconds> from_timespec(const timespec& time) noexcept;

}  // namespace berth::internal::simulated
