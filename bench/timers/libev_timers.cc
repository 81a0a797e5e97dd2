// SPDX-License-Identifier: Apache-2.0
// libev: ev_timer_start, and ev_timer_again to re-arm, as its manual advises for idle timeouts.
#include "bench/timers/programs.h"

#include <ev.h>

#include <memory>
#include <vector>

namespace berth::bench {
namespace {

double seconds_of(std::uint64_t timeout_ns) noexcept {
    return static_cast<double>(timeout_ns) * 1e-9;
}

class LibevTimers final : public TimerSubject {
public:
    LibevTimers(std::uint32_t count, struct ev_loop* loop)
        : TimerSubject(count), loop_(loop, ev_loop_destroy), timers_(count) {
        for (ev_timer& timer : timers_) {
            ev_timer_init(&timer, fire_one, 0.0, 0.0);
            timer.data = this;
        }
    }

    void schedule(std::span<const std::uint64_t> timeouts_ns) override {
        forget_fired();
        ev_now_update(loop_.get());
        for (std::size_t timer = 0; timer < timeouts_ns.size(); ++timer) {
            ev_timer_set(&timers_[timer], seconds_of(timeouts_ns[timer]), 0.0);
            ev_timer_start(loop_.get(), &timers_[timer]);
        }
    }
    void rearm(std::span<const Rearm> rearms) override {
        ev_now_update(loop_.get());
        for (const Rearm& rearm : rearms) {
            timers_[rearm.timer].repeat = seconds_of(rearm.timeout_ns);
            ev_timer_again(loop_.get(), &timers_[rearm.timer]);
        }
    }
    void cancel(std::span<const std::uint32_t> timers) override {
        for (const std::uint32_t timer : timers) ev_timer_stop(loop_.get(), &timers_[timer]);
    }
    void let_pass(std::uint64_t window_ns) override { sleep_past(window_ns); }
    void fire() override {
        while (!have_all_fired() && ev_run(loop_.get(), EVRUN_ONCE) != 0) {
        }
    }

private:
    static void fire_one(struct ev_loop*, ev_timer* timer, int) {
        auto* self = static_cast<LibevTimers*>(timer->data);
        self->note_fired(static_cast<std::size_t>(timer - self->timers_.data()));
    }

    std::unique_ptr<struct ev_loop, decltype(&ev_loop_destroy)> loop_;
    std::vector<ev_timer> timers_;
};

}  // namespace

TimerSubjectResult make_libev_timers(std::uint32_t count) {
    struct ev_loop* loop = ev_loop_new(EVFLAG_AUTO);
    if (loop == nullptr) {
        return std::unexpected(Error(Errc::system, "bench timers", "libev", 0, "no loop"));
    }
    return std::make_unique<LibevTimers>(count, loop);
}

}  // namespace berth::bench
