// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/virtual_clock.h"

#include "src/base/assert.h"

#include <algorithm>

namespace berth::internal::simulated {
namespace {

// More events than this at one time is a network that answers itself for ever.
constexpr std::uint64_t kEventLimit = 50'000'000;

}  // namespace

VirtualClock::EventId VirtualClock::schedule(Nanoseconds delay, Event event) {
    const EventId id = {now_ + std::max(delay, Nanoseconds(0)), ++scheduled_count_};
    events_.emplace(id, std::move(event));
    return id;
}

void VirtualClock::cancel(EventId& id) {
    events_.erase(id);
    id = {};
}

std::optional<Nanoseconds> VirtualClock::next_event() const {
    if (events_.empty()) {
        return std::nullopt;
    }
    return events_.begin()->first.first;
}

void VirtualClock::run_due() {
    for (std::uint64_t count = 0; !events_.empty(); ++count) {
        const auto first = events_.begin();
        if (first->first.first > now_) {
            return;
        }
        BERTH_ASSERT(count < kEventLimit);
        const Event event = std::move(first->second);
        events_.erase(first);
        event();
    }
}

void VirtualClock::run_until(Nanoseconds time) {
    while (true) {
        run_due();
        const auto next = next_event();
        if (!next || *next > time) {
            break;
        }
        now_ = *next;
    }
    now_ = std::max(now_, time);
}

std::optional<timespec> VirtualClock::read(clockid_t clock) const noexcept {
    switch (clock) {
        case CLOCK_MONOTONIC:
        case CLOCK_MONOTONIC_RAW:
        case CLOCK_MONOTONIC_COARSE:
        case CLOCK_BOOTTIME:
            return to_timespec(now_);
        case CLOCK_REALTIME:
        case CLOCK_REALTIME_COARSE:
        case CLOCK_TAI:
            return to_timespec(now_ + wall_offset_);
        default:
            return std::nullopt;
    }
}

timespec to_timespec(Nanoseconds time) noexcept {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    timespec result{};
    result.tv_sec = static_cast<time_t>(seconds.count());
    result.tv_nsec = static_cast<long>((time - seconds).count());
    return result;
}

std::optional<Nanoseconds> from_timespec(const timespec& time) noexcept {
    constexpr long kSecond = 1'000'000'000;
    // As good as for ever, and no overflow when it is added to the time.
    constexpr time_t kLongest = 4'000'000'000;
    if (time.tv_sec < 0 || time.tv_nsec < 0 || time.tv_nsec >= kSecond) {
        return std::nullopt;
    }
    return std::chrono::seconds(std::min(time.tv_sec, kLongest)) + Nanoseconds(time.tv_nsec);
}

}  // namespace berth::internal::simulated
