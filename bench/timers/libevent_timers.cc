// SPDX-License-Identifier: Apache-2.0
// libevent: event_add with a timeout. Timers are started from callbacks, where the loop's time is
// cached; outside it reads the clock each time.
#include "bench/timers/programs.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <sys/time.h>

#include <memory>
#include <vector>

namespace berth::bench {
namespace {

timeval timeval_of(std::uint64_t timeout_ns) noexcept {
    const std::uint64_t timeout_us = (timeout_ns + 999) / 1'000;
    return {.tv_sec = static_cast<time_t>(timeout_us / 1'000'000),
            .tv_usec = static_cast<suseconds_t>(timeout_us % 1'000'000)};
}

class LibeventTimers final : public TimerSubject {
public:
    LibeventTimers(std::uint32_t count, event_base* base)
        : TimerSubject(count), base_(base, event_base_free), timers_(count) {
        for (Timer& timer : timers_) {
            timer.owner = this;
            evtimer_assign(&timer.event, base, fire_one, &timer);
        }
    }
    ~LibeventTimers() override {
        for (Timer& timer : timers_) event_del(&timer.event);
    }

    void schedule(std::span<const std::uint64_t> timeouts_ns) override {
        forget_fired();
        in_callback([&] {
            for (std::size_t timer = 0; timer < timeouts_ns.size(); ++timer) {
                start(timers_[timer], timeouts_ns[timer]);
            }
        });
    }
    void rearm(std::span<const Rearm> rearms) override {
        in_callback([&] {
            for (const Rearm& rearm : rearms) start(timers_[rearm.timer], rearm.timeout_ns);
        });
    }
    void cancel(std::span<const std::uint32_t> timers) override {
        in_callback([&] {
            for (const std::uint32_t timer : timers) event_del(&timers_[timer].event);
        });
    }
    void let_pass(std::uint64_t window_ns) override { sleep_past(window_ns); }
    void fire() override {
        while (!have_all_fired() && event_base_loop(base_.get(), EVLOOP_ONCE) == 0) {
        }
    }

private:
    struct Timer {
        ::event event;
        LibeventTimers* owner;
    };

    static void fire_one(evutil_socket_t, short, void* argument) {
        auto* timer = static_cast<Timer*>(argument);
        timer->owner->note_fired(static_cast<std::size_t>(timer - timer->owner->timers_.data()));
    }

    static void start(Timer& timer, std::uint64_t timeout_ns) {
        const timeval timeout = timeval_of(timeout_ns);
        event_add(&timer.event, &timeout);
    }

    template <class Body>
    void in_callback(Body body) {
        const timeval now{};
        const auto run = [](evutil_socket_t, short, void* argument) {
            (*static_cast<Body*>(argument))();
        };
        event_base_once(base_.get(), -1, EV_TIMEOUT, run, &body, &now);
        event_base_loop(base_.get(), EVLOOP_ONCE);
    }

    std::unique_ptr<event_base, decltype(&event_base_free)> base_;
    std::vector<Timer> timers_;
};

}  // namespace

TimerSubjectResult make_libevent_timers(std::uint32_t count) {
    const std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(),
                                                                             event_config_free);
    if (config != nullptr) {
        event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    }
    event_base* base = config == nullptr ? nullptr : event_base_new_with_config(config.get());
    if (base == nullptr) {
        return std::unexpected(Error(Errc::system, "bench timers", "libevent", 0, "no event base"));
    }
    return std::make_unique<LibeventTimers>(count, base);
}

}  // namespace berth::bench
