// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/clockwork.h"

#include <algorithm>
#include <string>

namespace berth::test::stress {
namespace {

using namespace std::chrono_literals;

}  // namespace

Clockwork::Clockwork(World& world)
    : Actor(world), beat_(world.loop(), [this] {
          ++beat_count_;
          if (now() - beating_since_ < beat_count_ * period_) {
              world_.findings.add("a periodic timer fires early");
          }
          if (world_.dice.chance(0.1)) beat_.stop();
      }) {
    for (auto& alarm : alarms_) {
        alarm = std::make_unique<Alarm>(*this);
    }
}

void Clockwork::act() {
    if (world_.is_winding_down) {
        return;
    }
    std::unique_ptr<Alarm>& alarm = alarms_[world_.dice.below(alarms_.size())];
    const std::uint64_t roll = world_.dice.below(100);
    if (roll < 70) {
        set(*alarm);
    } else if (roll < 85) {
        alarm->operation.cancel();
    } else if (roll < 92) {
        alarm = std::make_unique<Alarm>(*this);
    } else {
        period_ = 1ms + world_.dice.duration(20ms);
        beating_since_ = now();
        beat_count_ = 0;
        beat_.start_every(period_);
    }
}

void Clockwork::set(Alarm& alarm) {
    // Some are in the past, some below a millisecond, few far away.
    constexpr std::array<std::chrono::nanoseconds, 5> kSpans = {0ns, 900us, 10ms, 300ms, 20min};
    const auto span = world_.dice.one_of(kSpans);
    const bool is_past = world_.dice.chance(0.05);
    alarm.deadline = is_past ? now() - 1ms : now() + world_.dice.duration(span);
    alarm.has_deadline = !world_.dice.chance(0.03);
    alarm.started = now();
    const Deadline deadline = alarm.has_deadline ? at(alarm.deadline) : kNoDeadline;
    if (!alarm.operation.is_free()) {
        const InsideCall inside(world_);
        alarm.operation.uncancel();
        alarm.operation.restart(world_.loop(), deadline);
        return;
    }
    alarm.operation.start(kNoDeadline, [&](Deadline) {
        alarm.operation.TimerOperation::start(world_.loop(), deadline);
        return Start::pending;
    });
}

void Clockwork::fired(const Alarm& alarm) {
    if (world_.is_loop_ending || alarm.operation.has_failed()) {
        return;
    }
    if (!alarm.has_deadline || now() < alarm.deadline) {
        world_.findings.add("a timer fires early");
    } else if (now() - std::max(alarm.deadline, alarm.started) > world_.slack) {
        world_.findings.add("a timer fires late");
    }
    // To the millisecond: that is as exact as distant deadlines are kept.
    const bool was_there = alarm.started < latest_fired_at_;
    if (was_there && latest_fired_ - alarm.deadline > world_.slack) {
        world_.findings.add("timers fire out of order");
    }
    if (alarm.deadline >= latest_fired_) {
        latest_fired_ = alarm.deadline;
        latest_fired_at_ = now();
    }
    if (world_.dice.chance(0.2)) act();
}

void Clockwork::wind_down() {
    is_stopped_ = true;
    beat_.stop();
    for (auto& alarm : alarms_) {
        if (world_.dice.chance(0.5)) {
            alarm->operation.cancel();
        } else {
            alarm = std::make_unique<Alarm>(*this);
        }
    }
}

}  // namespace berth::test::stress
