// SPDX-License-Identifier: Apache-2.0
// What is done without a structure for timers: a balanced tree, ordered by the deadlines. In
// virtual time.
#include "bench/harness/statistics.h"
#include "bench/timers/programs.h"

#include <map>
#include <memory_resource>
#include <utility>
#include <vector>

namespace berth::bench {
namespace {

class RbtreeTimers final : public TimerSubject {
public:
    explicit RbtreeTimers(std::uint32_t count)
        : TimerSubject(count), now_ns_(now_ns()), running_(&pool_), timers_(count) {
        for (Timer& timer : timers_) {
            timer.callback = [](RbtreeTimers& self, Timer& fired) {
                self.note_fired(static_cast<std::size_t>(&fired - self.timers_.data()));
            };
        }
    }

    void schedule(std::span<const std::uint64_t> timeouts_ns) override {
        forget_fired();
        for (std::size_t timer = 0; timer < timeouts_ns.size(); ++timer) {
            timers_[timer].place = running_.emplace(now_ns_ + timeouts_ns[timer], &timers_[timer]);
        }
    }
    void rearm(std::span<const Rearm> rearms) override {
        for (const Rearm& rearm : rearms) {
            Timer& timer = timers_[rearm.timer];
            Tree::node_type node = running_.extract(timer.place);
            node.key() = now_ns_ + rearm.timeout_ns;
            timer.place = running_.insert(std::move(node));
        }
    }
    void cancel(std::span<const std::uint32_t> timers) override {
        for (const std::uint32_t timer : timers) running_.erase(timers_[timer].place);
    }
    void let_pass(std::uint64_t window_ns) override { now_ns_ += window_ns; }
    void fire() override {
        while (!running_.empty() && running_.begin()->first <= now_ns_) {
            Timer& timer = *running_.begin()->second;
            running_.erase(running_.begin());
            timer.callback(*this, timer);
        }
    }

private:
    struct Timer;
    using Tree = std::pmr::multimap<std::uint64_t, Timer*>;
    struct Timer {
        Tree::iterator place;
        void (*callback)(RbtreeTimers& self, Timer& timer) = nullptr;
    };

    std::uint64_t now_ns_;
    std::pmr::unsynchronized_pool_resource pool_;
    Tree running_;
    std::vector<Timer> timers_;
};

}  // namespace

TimerSubjectResult make_rbtree_timers(std::uint32_t count) {
    return std::make_unique<RbtreeTimers>(count);
}

}  // namespace berth::bench
