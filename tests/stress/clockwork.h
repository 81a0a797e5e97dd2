// SPDX-License-Identifier: Apache-2.0
#pragma once

// Timers that are started, moved, cancelled, stopped and thrown away: none fires early, nor much
// later than it should, nor after one with a later deadline.

#include "tests/stress/tracked.h"

#include <berth/timer.h>

#include <array>
#include <functional>
#include <memory>

namespace berth::test::stress {

class Clockwork final : public Actor {
public:
    explicit Clockwork(World& world);

    void act() override;
    void wind_down() override;

private:
    struct Alarm {
        explicit Alarm(Clockwork& clockwork)
            : operation(clockwork.world_, clockwork.is_stopped_,
                        [&clockwork, this] { clockwork.fired(*this); }) {}

        TimePoint deadline;
        bool has_deadline = false;
        TimePoint started;
        Tracked<TimerOperation> operation;
    };

    TimePoint now() noexcept { return world_.loop().now(); }
    void set(Alarm& alarm);
    void fired(const Alarm& alarm);

    std::array<std::unique_ptr<Alarm>, 6> alarms_;
    bool is_stopped_ = false;
    Timer<std::function<void()>> beat_;
    TimePoint beating_since_;
    int beat_count_ = 0;
    std::chrono::nanoseconds period_{0};
    TimePoint latest_fired_;  // the latest deadline that has fired, and when
    TimePoint latest_fired_at_;
};

}  // namespace berth::test::stress
