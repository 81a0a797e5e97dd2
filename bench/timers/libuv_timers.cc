// SPDX-License-Identifier: Apache-2.0
// libuv: uv_timer_start, also to re-arm: it stops the timer first.
#include "bench/timers/programs.h"

#include <uv.h>

#include <memory>
#include <vector>

namespace berth::bench {
namespace {

class LibuvTimers final : public TimerSubject {
public:
    explicit LibuvTimers(std::uint32_t count) : TimerSubject(count), timers_(count) {}
    ~LibuvTimers() override {
        for (uv_timer_t& timer : timers_) {
            uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
        }
        uv_run(&loop_, UV_RUN_DEFAULT);
        uv_loop_close(&loop_);
    }

    /// 0, or a libuv error; then the object must be leaked.
    int init() {
        if (const int error = uv_loop_init(&loop_); error != 0) {
            return error;
        }
        for (uv_timer_t& timer : timers_) {
            uv_timer_init(&loop_, &timer);
            timer.data = this;
        }
        return 0;
    }

    void schedule(std::span<const std::uint64_t> timeouts_ns) override {
        forget_fired();
        uv_update_time(&loop_);
        for (std::size_t timer = 0; timer < timeouts_ns.size(); ++timer) {
            start(timers_[timer], timeouts_ns[timer]);
        }
    }
    void rearm(std::span<const Rearm> rearms) override {
        uv_update_time(&loop_);
        for (const Rearm& rearm : rearms) start(timers_[rearm.timer], rearm.timeout_ns);
    }
    void cancel(std::span<const std::uint32_t> timers) override {
        for (const std::uint32_t timer : timers) uv_timer_stop(&timers_[timer]);
    }
    void let_pass(std::uint64_t window_ns) override { sleep_past(window_ns); }
    void fire() override {
        while (!have_all_fired() && uv_run(&loop_, UV_RUN_ONCE) != 0) {
        }
    }

private:
    static void fire_one(uv_timer_t* timer) {
        auto* self = static_cast<LibuvTimers*>(timer->data);
        self->note_fired(static_cast<std::size_t>(timer - self->timers_.data()));
    }

    static void start(uv_timer_t& timer, std::uint64_t timeout_ns) {
        uv_timer_start(&timer, fire_one, (timeout_ns + 999'999) / 1'000'000, 0);
    }

    uv_loop_t loop_{};
    std::vector<uv_timer_t> timers_;
};

}  // namespace

TimerSubjectResult make_libuv_timers(std::uint32_t count) {
    auto subject = std::make_unique<LibuvTimers>(count);
    if (const int error = subject->init(); error != 0) {
        // Its destructor needs a loop.
        static_cast<void>(subject.release());
        return std::unexpected(Error::from_errno(-error, "bench timers", "libuv"));
    }
    return subject;
}

}  // namespace berth::bench
