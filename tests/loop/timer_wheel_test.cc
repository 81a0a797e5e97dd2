// SPDX-License-Identifier: Apache-2.0
#include "src/loop/timer_wheel.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace berth::internal {
namespace {

constexpr std::uint64_t kMs = TimerWheel::kTickNs;
constexpr std::uint64_t kNever = TimerWheel::kNever;
constexpr std::uint64_t kStart = 12'345'678 * kMs + 400'000;

static_assert(sizeof(TimerNode) == 32);

/// A wheel with nodes that are named by their index.
template <std::size_t count>
class Wheel : public TimerWheel {
public:
    explicit Wheel(std::uint64_t now_ns = kStart) : TimerWheel(now_ns) {}
    ~Wheel() {
        take_all(out);
        static_cast<void>(popped());
    }

    std::vector<std::size_t> expired(std::uint64_t now_ns) {
        expire(now_ns, out);
        return popped();
    }
    std::vector<std::size_t> popped() {
        std::vector<std::size_t> indices;
        while (const TimerNode* node = out.pop_front()) {
            indices.push_back(static_cast<std::size_t>(node - nodes.data()));
        }
        return indices;
    }

    std::array<TimerNode, count> nodes;
    TimerList out;
};

using Indices = std::vector<std::size_t>;

TEST(TimerWheel, IsEmptyAtFirst) {
    Wheel<1> wheel;
    EXPECT_TRUE(wheel.is_empty());
    EXPECT_EQ(wheel.next_expiry_ns(), kNever);
    EXPECT_FALSE(TimerWheel::is_scheduled(wheel.nodes[0]));
    EXPECT_FALSE(wheel.cancel(wheel.nodes[0]));
    EXPECT_EQ(wheel.expired(kNever), Indices{});
}

TEST(TimerWheel, GivesOutANodeAtTheMillisecondAfterItsDeadline) {
    Wheel<1> wheel;
    const std::uint64_t due_ns = kStart / kMs * kMs + 3 * kMs;
    wheel.schedule(wheel.nodes[0], due_ns - kMs + 1);
    EXPECT_EQ(wheel.next_expiry_ns(), due_ns);
    EXPECT_EQ(wheel.expired(due_ns - 1), Indices{});
    EXPECT_TRUE(TimerWheel::is_scheduled(wheel.nodes[0]));
    EXPECT_EQ(wheel.next_expiry_ns(), due_ns);
    EXPECT_EQ(wheel.expired(due_ns), Indices{0});
    EXPECT_FALSE(TimerWheel::is_scheduled(wheel.nodes[0]));
    EXPECT_TRUE(wheel.is_empty());
}

TEST(TimerWheel, ADeadlineOnAFullMillisecondIsNotLate) {
    Wheel<1> wheel(5 * kMs);
    wheel.schedule(wheel.nodes[0], 6 * kMs);
    EXPECT_EQ(wheel.next_expiry_ns(), 6 * kMs);
    EXPECT_EQ(wheel.expired(6 * kMs - 1), Indices{});
    EXPECT_EQ(wheel.expired(6 * kMs), Indices{0});
}

TEST(TimerWheel, ADeadlineInThePastIsDueAtTheNextExpireEvenAtTheSameTime) {
    Wheel<3> wheel;
    wheel.schedule(wheel.nodes[0], kStart);
    wheel.schedule(wheel.nodes[1], 0);
    wheel.schedule(wheel.nodes[2], kStart + 1);
    EXPECT_LE(wheel.next_expiry_ns(), kStart);
    EXPECT_EQ(wheel.expired(kStart), (Indices{0, 1}));
    EXPECT_GT(wheel.next_expiry_ns(), kStart);
}

TEST(TimerWheel, TimeThatGoesBackwardsIsIgnored) {
    Wheel<2> wheel;
    EXPECT_EQ(wheel.expired(kStart + 10 * kMs), Indices{});
    wheel.schedule(wheel.nodes[0], kStart + 9 * kMs);
    wheel.schedule(wheel.nodes[1], kStart + 12 * kMs);
    EXPECT_EQ(wheel.expired(kStart), Indices{0});
    EXPECT_EQ(wheel.expired(kStart + 13 * kMs), Indices{1});
}

TEST(TimerWheel, NodesOfOneTickComeOutInTheOrderScheduled) {
    // Far enough for two moves to lower levels.
    for (const std::uint64_t distance_ms : {1U, 70U, 5'000U}) {
        Wheel<4> wheel(0);
        wheel.schedule(wheel.nodes[2], distance_ms * kMs);
        wheel.schedule(wheel.nodes[0], distance_ms * kMs - 7);
        wheel.schedule(wheel.nodes[3], distance_ms * kMs - 1);
        EXPECT_EQ(wheel.expired((distance_ms - 1) * kMs), Indices{});
        wheel.schedule(wheel.nodes[1], distance_ms * kMs - 9);
        EXPECT_EQ(wheel.expired(distance_ms * kMs), (Indices{2, 0, 3, 1}));
    }
}

TEST(TimerWheel, AJumpOverManyLevelsKeepsTheOrderOfTheTicks) {
    Wheel<5> wheel(0);
    const std::array<std::uint64_t, 5> ticks = {5'000'000, 3, 4'999'999, 70, 64};
    for (std::size_t index = 0; index < ticks.size(); ++index) {
        wheel.schedule(wheel.nodes[index], ticks[index] * kMs);
    }
    EXPECT_EQ(wheel.expired(kNever), (Indices{1, 4, 3, 2, 0}));
}

TEST(TimerWheel, EveryLevelBoundaryIsExact) {
    for (unsigned level = 1; level < 8; ++level) {
        const std::uint64_t boundary = std::uint64_t{1} << (6 * level);
        for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{1}, boundary - 1}) {
            Wheel<3> wheel(start * kMs);
            for (std::size_t index = 0; index < 3; ++index) {
                wheel.schedule(wheel.nodes[index], (start + boundary + index - 1) * kMs);
            }
            for (std::size_t index = 0; index < 3; ++index) {
                const std::uint64_t deadline_ns = (start + boundary + index - 1) * kMs;
                EXPECT_LE(wheel.next_expiry_ns(), deadline_ns);
                EXPECT_EQ(wheel.expired(deadline_ns - 1), Indices{}) << level << ' ' << start;
                EXPECT_EQ(wheel.next_expiry_ns(), deadline_ns);
                EXPECT_EQ(wheel.expired(deadline_ns), Indices{index}) << level << ' ' << start;
            }
        }
    }
}

TEST(TimerWheel, TheLongestDeadlinesWaitTheirTurn) {
    Wheel<3> wheel(0);
    const std::uint64_t last_ns = kNever / kMs * kMs;
    wheel.schedule(wheel.nodes[0], kNever);
    wheel.schedule(wheel.nodes[1], last_ns);
    wheel.schedule(wheel.nodes[2], last_ns - kMs);
    EXPECT_LE(wheel.next_expiry_ns(), last_ns - kMs);
    EXPECT_EQ(wheel.expired(last_ns - 1), Indices{2});
    EXPECT_EQ(wheel.expired(last_ns), Indices{1});
    EXPECT_EQ(wheel.next_expiry_ns(), kNever);
    EXPECT_FALSE(wheel.is_empty());
    EXPECT_EQ(wheel.expired(kNever), Indices{});
}

TEST(TimerWheel, NextExpiryReachesADeadlineInAFewWakeups) {
    Wheel<1> wheel(0);
    const std::uint64_t deadline_ns = 987'654'321 * kMs;
    wheel.schedule(wheel.nodes[0], deadline_ns);
    unsigned wakeups = 0;
    std::uint64_t now_ns = 0;
    while (!wheel.is_empty()) {
        ASSERT_GT(wheel.next_expiry_ns(), now_ns);
        now_ns = wheel.next_expiry_ns();
        ASSERT_LE(now_ns, deadline_ns);
        static_cast<void>(wheel.expired(now_ns));
        ++wakeups;
    }
    EXPECT_EQ(now_ns, deadline_ns);
    EXPECT_LE(wakeups, 5U);
}

TEST(TimerWheel, CancelTakesANodeFromTheFrontMiddleAndBackOfASlot) {
    for (std::size_t cancelled = 0; cancelled < 3; ++cancelled) {
        Wheel<3> wheel;
        Indices expected = {0, 1, 2};
        for (TimerNode& node : wheel.nodes) wheel.schedule(node, kStart + kMs);
        EXPECT_TRUE(wheel.cancel(wheel.nodes[cancelled]));
        EXPECT_FALSE(TimerWheel::is_scheduled(wheel.nodes[cancelled]));
        std::erase(expected, cancelled);
        EXPECT_EQ(wheel.expired(kStart + 2 * kMs), expected);
    }
}

TEST(TimerWheel, ASlotWithoutNodesIsForgotten) {
    for (unsigned level = 0; level < 8; ++level) {
        Wheel<2> wheel(0);
        const std::uint64_t deadline_ns = (std::uint64_t{1} << (6 * level)) * kMs;
        wheel.schedule(wheel.nodes[0], deadline_ns);
        wheel.schedule(wheel.nodes[1], deadline_ns);
        wheel.cancel(wheel.nodes[0]);
        EXPECT_EQ(wheel.next_expiry_ns(), deadline_ns);
        wheel.cancel(wheel.nodes[1]);
        EXPECT_EQ(wheel.next_expiry_ns(), kNever);
    }
}

TEST(TimerWheel, CancelWorksInsideAnExpiredBatch) {
    Wheel<5> wheel;
    for (TimerNode& node : wheel.nodes) wheel.schedule(node, kStart + kMs);
    wheel.expire(kStart + 2 * kMs, wheel.out);
    EXPECT_TRUE(wheel.is_empty());
    EXPECT_TRUE(TimerWheel::is_scheduled(wheel.nodes[0]));
    for (const std::size_t index : {0U, 2U, 4U}) EXPECT_TRUE(wheel.cancel(wheel.nodes[index]));
    EXPECT_FALSE(wheel.cancel(wheel.nodes[0]));
    EXPECT_EQ(wheel.popped(), (Indices{1, 3}));
}

TEST(TimerWheel, TheOnlyNodeOfAnExpiredBatchCanBeCancelled) {
    Wheel<2> wheel;
    wheel.schedule(wheel.nodes[0], kStart);
    wheel.schedule(wheel.nodes[1], kStart + 5 * kMs);
    wheel.expire(kStart, wheel.out);
    EXPECT_TRUE(wheel.cancel(wheel.nodes[0]));
    EXPECT_TRUE(wheel.out.is_empty());
    EXPECT_EQ(wheel.expired(kStart + 6 * kMs), Indices{1});
}

TEST(TimerWheel, ExpireAppendsToWhatIsStillThere) {
    Wheel<2> wheel;
    wheel.schedule(wheel.nodes[1], kStart + kMs);
    wheel.schedule(wheel.nodes[0], kStart + 2 * kMs);
    wheel.expire(kStart + kMs, wheel.out);
    wheel.expire(kStart + 3 * kMs, wheel.out);
    EXPECT_EQ(wheel.popped(), (Indices{1, 0}));
}

TEST(TimerWheel, APostponedNodeComesOutAtItsNewDeadlineOnly) {
    Wheel<1> wheel(0);
    wheel.schedule(wheel.nodes[0], 10 * kMs);
    wheel.postpone(wheel.nodes[0], 100 * kMs);
    wheel.postpone(wheel.nodes[0], 5'000 * kMs);
    EXPECT_EQ(wheel.next_expiry_ns(), 10 * kMs);
    EXPECT_EQ(wheel.expired(4'999 * kMs), Indices{});
    EXPECT_TRUE(TimerWheel::is_scheduled(wheel.nodes[0]));
    EXPECT_EQ(wheel.next_expiry_ns(), 5'000 * kMs);
    EXPECT_EQ(wheel.expired(5'000 * kMs), Indices{0});
}

TEST(TimerWheel, APostponedNodeKeepsItsPlaceInTimeWithinOneJump) {
    Wheel<3> wheel(0);
    wheel.schedule(wheel.nodes[0], 10 * kMs);
    wheel.schedule(wheel.nodes[1], 50 * kMs);
    wheel.schedule(wheel.nodes[2], 200 * kMs);
    wheel.postpone(wheel.nodes[0], 100 * kMs);
    EXPECT_EQ(wheel.expired(1'000 * kMs), (Indices{1, 0, 2}));
}

TEST(TimerWheel, APostponedNodeMayMoveForwardAgain) {
    Wheel<1> wheel(0);
    wheel.schedule(wheel.nodes[0], 100 * kMs);
    wheel.postpone(wheel.nodes[0], 9'000 * kMs);
    wheel.postpone(wheel.nodes[0], 200 * kMs);  // later than its slot
    EXPECT_EQ(wheel.next_expiry_ns(), 64 * kMs);
    wheel.postpone(wheel.nodes[0], 20 * kMs);  // earlier than its slot
    EXPECT_EQ(wheel.next_expiry_ns(), 20 * kMs);
    EXPECT_EQ(wheel.expired(19 * kMs), Indices{});
    EXPECT_EQ(wheel.expired(20 * kMs), Indices{0});
}

TEST(TimerWheel, PostponeSchedulesWhatIsNotScheduled) {
    Wheel<1> wheel;
    wheel.postpone(wheel.nodes[0], kStart + kMs);
    EXPECT_EQ(wheel.expired(kStart + 2 * kMs), Indices{0});
    wheel.postpone(wheel.nodes[0], kStart + 5 * kMs);
    EXPECT_TRUE(wheel.cancel(wheel.nodes[0]));
    wheel.postpone(wheel.nodes[0], kStart + 7 * kMs);
    EXPECT_EQ(wheel.expired(kStart + 6 * kMs), Indices{});
    EXPECT_EQ(wheel.expired(kStart + 8 * kMs), Indices{0});
}

TEST(TimerWheel, PostponeTakesANodeBackFromAnExpiredBatch) {
    Wheel<3> wheel;
    for (TimerNode& node : wheel.nodes) wheel.schedule(node, kStart + kMs);
    wheel.expire(kStart + 2 * kMs, wheel.out);
    wheel.postpone(wheel.nodes[1], kStart + 60'000 * kMs);
    wheel.postpone(wheel.nodes[2], kNever);
    EXPECT_EQ(wheel.popped(), Indices{0});
    EXPECT_EQ(wheel.expired(kStart + 60'001 * kMs), Indices{1});
    EXPECT_TRUE(TimerWheel::is_scheduled(wheel.nodes[2]));
}

TEST(TimerWheel, WhatWasDueAtOnceMayStillBePostponed) {
    Wheel<2> wheel;
    wheel.schedule(wheel.nodes[0], kStart - 5);
    wheel.schedule(wheel.nodes[1], kStart);
    wheel.postpone(wheel.nodes[0], kStart + 10 * kMs);
    EXPECT_EQ(wheel.expired(kStart), Indices{1});
    EXPECT_EQ(wheel.expired(kStart + 11 * kMs), Indices{0});
}

TEST(TimerWheel, TakeAllEmptiesEveryLevel) {
    Wheel<9> wheel(0);
    for (unsigned level = 0; level < 8; ++level) {
        wheel.schedule(wheel.nodes[level], (std::uint64_t{1} << (6 * level)) * kMs);
    }
    wheel.schedule(wheel.nodes[8], 0);
    wheel.take_all(wheel.out);
    EXPECT_TRUE(wheel.is_empty());
    EXPECT_EQ(wheel.popped(), (Indices{8, 0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(TimerWheelDeathTest, ANodeIsScheduledOnce) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Wheel<1> wheel;
            wheel.schedule(wheel.nodes[0], kStart);
            wheel.schedule(wheel.nodes[0], kStart);
        },
        "broken invariant");
}

TEST(TimerWheelDeathTest, AWheelDoesNotGoBeforeItsNodes) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            TimerNode node;
            TimerWheel wheel(kStart);
            wheel.schedule(node, kStart);
        },
        "broken invariant");
}

// Random sequences, held against a multimap from the tick to the node.

constexpr std::size_t kModelNodes = 12;

class WheelRun {
public:
    explicit WheelRun(std::uint64_t now_ns) : now_ns_(now_ns), wheel_(now_ns) {}

    // What to do, with which node, and with how much time.
    using Step = std::tuple<unsigned, std::size_t, std::uint64_t>;

    void step(const Step& step) {
        const auto& [what, index, time_ns] = step;
        switch (what) {
            case 0:
                cancel(index);
                break;
            case 1:
                postpone(index, later(time_ns));
                break;
            case 2:
                postpone(index, time_ns % (later(time_ns) | 1));
                break;
            case 3:
                advance(later(time_ns), index);
                break;
            case 4:
                advance(wheel_.next_expiry_ns() == kNever ? 0 : wheel_.next_expiry_ns(), index);
                break;
            default:
                schedule(index, later(time_ns));
        }
        check();
    }

    void finish() {
        wheel_.take_all(wheel_.out);
        RC_ASSERT(wheel_.popped().size() == order_.size());
    }

private:
    struct Entry {
        std::size_t index;
        bool is_in_order;  // its place among those of its tick is promised
    };

    std::uint64_t later(std::uint64_t time_ns) const {
        return time_ns > kNever - now_ns_ ? kNever : now_ns_ + time_ns;
    }

    /// 0: due already. Otherwise the first full millisecond at or after the deadline.
    std::uint64_t tick_of(std::uint64_t deadline_ns) const {
        return deadline_ns <= now_ns_ ? 0 : deadline_ns / kMs + (deadline_ns % kMs == 0 ? 0 : 1);
    }

    void forget(std::size_t index) {
        std::erase_if(order_, [index](const auto& item) { return item.second.index == index; });
    }

    void schedule(std::size_t index, std::uint64_t deadline_ns) {
        if (TimerWheel::is_scheduled(wheel_.nodes[index])) {
            return postpone(index, deadline_ns);
        }
        wheel_.schedule(wheel_.nodes[index], deadline_ns);
        order_.emplace(tick_of(deadline_ns), Entry{index, true});
    }

    void cancel(std::size_t index) {
        const bool was_scheduled = wheel_.cancel(wheel_.nodes[index]);
        RC_ASSERT(was_scheduled == contains(index));
        forget(index);
    }

    void postpone(std::size_t index, std::uint64_t deadline_ns) {
        const bool was_scheduled = contains(index);
        wheel_.postpone(wheel_.nodes[index], deadline_ns);
        forget(index);
        order_.emplace(tick_of(deadline_ns), Entry{index, !was_scheduled});
    }

    void advance(std::uint64_t to_ns, std::size_t chosen) {
        wheel_.expire(to_ns, wheel_.out);
        now_ns_ = std::max(now_ns_, to_ns);
        // One that may be in the batch goes before anybody has looked at it, or is put off.
        if (chosen % 3 == 0) cancel(chosen);
        if (chosen % 3 == 1 && contains(chosen) && now_ns_ < kNever - 5 * kMs) {
            postpone(chosen, now_ns_ + 5 * kMs);
        }
        expect_due(wheel_.popped());
    }

    /// The due nodes must be those, ordered by ticks, and within a tick those in order in order.
    void expect_due(const Indices& indices) {
        const auto end = order_.upper_bound(now_ns_ / kMs);
        RC_ASSERT(static_cast<std::size_t>(std::distance(order_.begin(), end)) == indices.size());
        auto position = indices.begin();
        for (auto first = order_.begin(); first != end;) {
            const auto last = order_.upper_bound(first->first);
            const auto length = std::distance(first, last);
            expect_tick(first, last, Indices(position, position + length));
            position += length;
            first = last;
        }
        order_.erase(order_.begin(), end);
    }

    template <class Iterator>
    static void expect_tick(Iterator first, Iterator last, const Indices& indices) {
        std::set<std::size_t> unordered;
        Indices expected;
        for (; first != last; ++first) {
            if (first->second.is_in_order) {
                expected.push_back(first->second.index);
            } else {
                unordered.insert(first->second.index);
            }
        }
        Indices ordered;
        for (const std::size_t index : indices) {
            if (unordered.erase(index) == 0) ordered.push_back(index);
        }
        RC_ASSERT(unordered.empty());
        RC_ASSERT(ordered == expected);
    }

    bool contains(std::size_t index) const {
        return std::ranges::any_of(
            order_, [index](const auto& item) { return item.second.index == index; });
    }

    void check() {
        for (std::size_t index = 0; index < kModelNodes; ++index) {
            RC_ASSERT(TimerWheel::is_scheduled(wheel_.nodes[index]) == contains(index));
        }
        if (order_.empty()) {
            RC_ASSERT(wheel_.next_expiry_ns() == kNever);
        } else if (const std::uint64_t first = order_.begin()->first; first <= kNever / kMs) {
            RC_ASSERT(wheel_.next_expiry_ns() <= std::max(first * kMs, now_ns_));
        }
    }

    std::uint64_t now_ns_;
    Wheel<kModelNodes> wheel_;
    std::multimap<std::uint64_t, Entry> order_;  // by tick, and as scheduled within one
};

/// Any number of nanoseconds, most of them near 0 or a boundary of a level.
rc::Gen<std::uint64_t> any_time() {
    const auto near = [](std::uint64_t base_ns) {
        return rc::gen::map(
            rc::gen::inRange<std::int64_t>(-2'000'000, 2'000'001), [base_ns](std::int64_t offset) {
                const std::uint64_t sum = base_ns + static_cast<std::uint64_t>(offset);
                return offset < 0 && sum > base_ns ? 0 : sum;
            });
    };
    const auto boundary = rc::gen::mapcat(rc::gen::inRange(0U, 8U), [near](unsigned level) {
        return near((std::uint64_t{1} << (6 * level)) * kMs);
    });
    return rc::gen::weightedOneOf<std::uint64_t>(
        {{4, rc::gen::inRange<std::uint64_t>(0, 200 * kMs)},
         {4, boundary},
         {2, rc::gen::inRange<std::uint64_t>(0, 600'000 * kMs)},
         {1, near(0)},
         {1, rc::gen::arbitrary<std::uint64_t>()}});
}

void check_against_model(const rc::Gen<std::uint64_t>& start) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    const bool holds = rc::check(info->name(), [&start] {
        const std::uint64_t start_ns = *start;
        const auto steps = *rc::gen::container<std::vector<WheelRun::Step>>(rc::gen::tuple(
            rc::gen::inRange(0U, 9U), rc::gen::inRange<std::size_t>(0, kModelNodes), any_time()));
        WheelRun run(start_ns);
        for (const WheelRun::Step& step : steps) run.step(step);
        run.finish();
    });
    EXPECT_TRUE(holds) << "replay with RC_PARAMS=\"reproduce=<as printed above>\" berth_tests "
                          "--gtest_filter="
                       << info->test_suite_name() << '.' << info->name();
}

TEST(TimerWheelProperty, AgreesWithAMultimapFromZero) {
    check_against_model(rc::gen::just<std::uint64_t>(0));
}
TEST(TimerWheelProperty, AgreesWithAMultimapAcrossLevelBoundaries) {
    check_against_model(any_time());
}

}  // namespace
}  // namespace berth::internal
