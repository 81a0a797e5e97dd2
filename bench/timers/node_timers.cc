// SPDX-License-Identifier: Apache-2.0
// berth's own two kinds of timers, in virtual time.
#include "bench/harness/statistics.h"
#include "bench/timers/programs.h"
#include "src/base/assert.h"
#include "src/loop/precise_timers.h"
#include "src/loop/timer_wheel.h"

#include <vector>

namespace berth::bench {
namespace {

using internal::PreciseTimers;
using internal::TimerList;
using internal::TimerNode;
using internal::TimerWheel;

/// Both with one interface.
class Wheel : public TimerWheel {
public:
    explicit Wheel(std::uint64_t now_ns) : TimerWheel(now_ns) {}
};

class Heap : public PreciseTimers {
public:
    explicit Heap(std::uint64_t) {}
    void schedule(TimerNode& node, std::uint64_t deadline_ns) {
        BERTH_ASSERT(PreciseTimers::schedule(node, deadline_ns));
    }
    void postpone(TimerNode& node, std::uint64_t deadline_ns) {
        BERTH_ASSERT(PreciseTimers::postpone(node, deadline_ns));
    }
};

template <class Timers>
class NodeTimers final : public TimerSubject {
public:
    explicit NodeTimers(std::uint32_t count)
        : TimerSubject(count), now_ns_(now_ns()), running_(now_ns_), timers_(count) {
        for (Timer& timer : timers_) {
            timer.callback = [](NodeTimers& self, Timer& fired) {
                self.note_fired(static_cast<std::size_t>(&fired - self.timers_.data()));
            };
        }
    }
    ~NodeTimers() override {
        running_.take_all(due_);
        while (due_.pop_front() != nullptr) {
        }
    }

    void schedule(std::span<const std::uint64_t> timeouts_ns) override {
        forget_fired();
        for (std::size_t timer = 0; timer < timeouts_ns.size(); ++timer) {
            running_.schedule(timers_[timer], now_ns_ + timeouts_ns[timer]);
        }
    }
    void rearm(std::span<const Rearm> rearms) override {
        for (const Rearm& rearm : rearms) {
            running_.postpone(timers_[rearm.timer], now_ns_ + rearm.timeout_ns);
        }
    }
    void cancel(std::span<const std::uint32_t> timers) override {
        for (const std::uint32_t timer : timers) running_.cancel(timers_[timer]);
    }
    void let_pass(std::uint64_t window_ns) override { now_ns_ += window_ns + kTickNs; }
    void fire() override {
        running_.expire(now_ns_, due_);
        while (TimerNode* node = due_.pop_front()) {
            Timer& timer = static_cast<Timer&>(*node);
            timer.callback(*this, timer);
        }
    }

private:
    static constexpr std::uint64_t kTickNs = TimerWheel::kTickNs;

    struct Timer : TimerNode {
        void (*callback)(NodeTimers& self, Timer& timer) = nullptr;
    };

    std::uint64_t now_ns_;
    Timers running_;
    TimerList due_;
    std::vector<Timer> timers_;
};

}  // namespace

TimerSubjectResult make_berth_timers(std::uint32_t count) {
    return std::make_unique<NodeTimers<Wheel>>(count);
}

TimerSubjectResult make_heap_timers(std::uint32_t count) {
    return std::make_unique<NodeTimers<Heap>>(count);
}

}  // namespace berth::bench
