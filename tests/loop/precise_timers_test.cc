// SPDX-License-Identifier: Apache-2.0
#include "src/loop/precise_timers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace berth::internal {
namespace {

constexpr std::uint64_t kNever = PreciseTimers::kNever;

using Indices = std::vector<std::size_t>;

/// Timers with nodes that are named by their index.
template <std::size_t count>
class Timers : public PreciseTimers {
public:
    ~Timers() {
        take_all(out);
        static_cast<void>(popped());
    }

    void start(std::size_t index, std::uint64_t deadline_ns) {
        EXPECT_TRUE(schedule(nodes[index], deadline_ns));
    }
    Indices expired(std::uint64_t now_ns) {
        expire(now_ns, out);
        return popped();
    }
    Indices popped() {
        Indices indices;
        while (const TimerNode* node = out.pop_front()) {
            indices.push_back(static_cast<std::size_t>(node - nodes.data()));
        }
        return indices;
    }

    std::array<TimerNode, count> nodes;
    TimerList out;
};

TEST(PreciseTimers, AreEmptyAtFirst) {
    Timers<1> timers;
    EXPECT_TRUE(timers.is_empty());
    EXPECT_EQ(timers.next_expiry_ns(), kNever);
    EXPECT_FALSE(PreciseTimers::is_scheduled(timers.nodes[0]));
    EXPECT_FALSE(timers.cancel(timers.nodes[0]));
    EXPECT_EQ(timers.expired(kNever), Indices{});
}

TEST(PreciseTimers, GiveOutANodeAtTheNanosecondOfItsDeadline) {
    Timers<1> timers;
    timers.start(0, 1'234'567);
    EXPECT_EQ(timers.next_expiry_ns(), 1'234'567U);
    EXPECT_EQ(timers.expired(1'234'566), Indices{});
    EXPECT_TRUE(PreciseTimers::is_scheduled(timers.nodes[0]));
    EXPECT_EQ(timers.expired(1'234'567), Indices{0});
    EXPECT_FALSE(PreciseTimers::is_scheduled(timers.nodes[0]));
    EXPECT_TRUE(timers.is_empty());
}

TEST(PreciseTimers, ComeOutInTheOrderOfTheirDeadlines) {
    constexpr std::size_t kCount = 1'000;
    Timers<kCount> timers;
    Indices order(kCount);
    for (std::size_t index = 0; index < kCount; ++index) order[index] = index;
    std::ranges::shuffle(order, std::mt19937(7));
    for (const std::size_t index : order) timers.start(index, 100 + index);
    std::ranges::sort(order);
    EXPECT_EQ(timers.expired(kNever), order);
}

TEST(PreciseTimers, NextExpiryFollowsCancellation) {
    Timers<3> timers;
    for (std::size_t index = 0; index < 3; ++index) timers.start(index, 10 * (index + 1));
    EXPECT_TRUE(timers.cancel(timers.nodes[0]));
    EXPECT_EQ(timers.next_expiry_ns(), 20U);
    EXPECT_TRUE(timers.cancel(timers.nodes[2]));
    EXPECT_EQ(timers.next_expiry_ns(), 20U);
    EXPECT_TRUE(timers.cancel(timers.nodes[1]));
    EXPECT_EQ(timers.next_expiry_ns(), kNever);
    EXPECT_FALSE(timers.cancel(timers.nodes[1]));
}

TEST(PreciseTimers, CancelWorksInsideAnExpiredBatch) {
    Timers<4> timers;
    for (std::size_t index = 0; index < 4; ++index) timers.start(index, index);
    timers.expire(10, timers.out);
    EXPECT_TRUE(timers.cancel(timers.nodes[3]));
    EXPECT_TRUE(timers.cancel(timers.nodes[1]));
    EXPECT_FALSE(timers.cancel(timers.nodes[1]));
    EXPECT_EQ(timers.popped(), (Indices{0, 2}));
}

TEST(PreciseTimers, PostponeMovesANodeBothWays) {
    Timers<3> timers;
    for (std::size_t index = 0; index < 3; ++index) timers.start(index, 10 * (index + 1));
    EXPECT_TRUE(timers.postpone(timers.nodes[0], 100));
    EXPECT_EQ(timers.next_expiry_ns(), 20U);
    EXPECT_TRUE(timers.postpone(timers.nodes[2], 5));
    EXPECT_EQ(timers.next_expiry_ns(), 5U);
    EXPECT_EQ(timers.expired(kNever), (Indices{2, 1, 0}));
}

TEST(PreciseTimers, PostponeSchedulesWhatIsNotScheduledAndTakesBackWhatExpired) {
    Timers<2> timers;
    EXPECT_TRUE(timers.postpone(timers.nodes[0], 10));
    EXPECT_TRUE(timers.cancel(timers.nodes[0]));
    EXPECT_TRUE(timers.postpone(timers.nodes[0], 20));
    timers.start(1, 15);
    timers.expire(30, timers.out);
    EXPECT_TRUE(timers.postpone(timers.nodes[0], 40));
    EXPECT_EQ(timers.popped(), Indices{1});
    EXPECT_EQ(timers.expired(40), Indices{0});
}

TEST(PreciseTimers, MissingMemoryIsAnError) {
    Timers<1> timers;
    const auto result = timers.reserve(std::numeric_limits<std::size_t>::max() / 16);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::out_of_memory);
    timers.start(0, 5);
    EXPECT_EQ(timers.expired(5), Indices{0});
}

TEST(PreciseTimersDeathTest, ANodeIsScheduledOnce) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Timers<1> timers;
            timers.start(0, 5);
            timers.start(0, 5);
        },
        "broken invariant");
}

// Random sequences, held against a multimap from the deadline to the node.

constexpr std::size_t kModelNodes = 40;

class HeapRun {
public:
    // What to do, with which node, and which time.
    using Step = std::tuple<unsigned, std::size_t, std::uint64_t>;

    void step(const Step& step) {
        const auto& [what, index, time_ns] = step;
        TimerNode& node = timers_.nodes[index];
        const bool was_scheduled = PreciseTimers::is_scheduled(node);
        if (what == 0) {
            RC_ASSERT(timers_.cancel(node) == was_scheduled);
            forget(index);
        } else if (what == 1) {
            advance(time_ns, index);
        } else if (was_scheduled || what == 2) {
            RC_ASSERT(timers_.postpone(node, time_ns).has_value());
            forget(index);
            model_.emplace(time_ns, index);
        } else {
            RC_ASSERT(timers_.schedule(node, time_ns).has_value());
            model_.emplace(time_ns, index);
        }
        check();
    }

private:
    void forget(std::size_t index) {
        std::erase_if(model_, [index](const auto& item) { return item.second == index; });
    }

    void advance(std::uint64_t now_ns, std::size_t cancelled) {
        timers_.expire(now_ns, timers_.out);
        // One that may be in the batch goes before anybody has looked at it.
        static_cast<void>(timers_.cancel(timers_.nodes[cancelled]));
        forget(cancelled);
        std::multimap<std::uint64_t, std::size_t> expired;
        std::uint64_t last_ns = 0;
        for (const std::size_t index : timers_.popped()) {
            const std::uint64_t deadline_ns = timers_.nodes[index].deadline_ns;
            RC_ASSERT(deadline_ns >= last_ns);
            last_ns = deadline_ns;
            expired.emplace(deadline_ns, index);
        }
        const auto end = model_.upper_bound(now_ns);
        RC_ASSERT(std::is_permutation(model_.begin(), end, expired.begin(), expired.end()));
        model_.erase(model_.begin(), end);
    }

    void check() {
        RC_ASSERT(timers_.next_expiry_ns() == (model_.empty() ? kNever : model_.begin()->first));
        RC_ASSERT(timers_.is_empty() == model_.empty());
        std::array<bool, kModelNodes> is_scheduled{};
        for (const auto& [deadline_ns, index] : model_) is_scheduled[index] = true;
        for (std::size_t index = 0; index < kModelNodes; ++index) {
            RC_ASSERT(PreciseTimers::is_scheduled(timers_.nodes[index]) == is_scheduled[index]);
        }
    }

    Timers<kModelNodes> timers_;
    std::multimap<std::uint64_t, std::size_t> model_;
};

TEST(PreciseTimersProperty, AgreeWithAMultimap) {
    const bool holds = rc::check("agree with a multimap", [] {
        const auto time = rc::gen::weightedOneOf<std::uint64_t>(
            {{5, rc::gen::inRange<std::uint64_t>(0, 200)},
             {1, rc::gen::arbitrary<std::uint64_t>()},
             {1, rc::gen::inRange<std::uint64_t>(kNever - 3, kNever)}});
        // Mostly schedules, so that the heap gets deep.
        const auto what = rc::gen::weightedElement<unsigned>({{2, 0}, {1, 1}, {3, 2}, {9, 3}});
        const auto steps =
            *rc::gen::scale(4.0, rc::gen::container<std::vector<HeapRun::Step>>(rc::gen::tuple(
                                     what, rc::gen::inRange<std::size_t>(0, kModelNodes), time)));
        HeapRun run;
        for (const HeapRun::Step& step : steps) run.step(step);
    });
    EXPECT_TRUE(holds) << "replay with RC_PARAMS=\"reproduce=<as printed above>\" berth_tests "
                          "--gtest_filter=PreciseTimersProperty.AgreeWithAMultimap";
}

}  // namespace
}  // namespace berth::internal
