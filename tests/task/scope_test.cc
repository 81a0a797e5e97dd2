// SPDX-License-Identifier: Apache-2.0
#include <berth/scope.h>

#include "tests/task/task_test.h"

#include <berth/timer.h>
#include <berth/when.h>

#include <memory>
#include <string>
#include <vector>

namespace berth::test {
namespace {

class ScopeTest : public EngineTest {};
class ScopeDeathTest : public EngineTest {};

using Log = std::vector<std::string>;

Task<void> wait_and_note(Event& event, Log& log, std::string name) {
    log.push_back(name + " starts");
    const Result<void> result = co_await event.wait();
    log.push_back(name + (result ? " ends" : " is cancelled"));
}

TEST_P(ScopeTest, ASpawnedTaskRunsAtOnceUntilItWaits) {
    Event event(loop());
    Log log;
    Scope scope;
    scope.spawn(wait_and_note(event, log, "a"));
    scope.spawn(wait_and_note(event, log, "b"));
    EXPECT_EQ(log, (Log{"a starts", "b starts"}));
    EXPECT_EQ(scope.size(), 2U);
    event.set();
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(log, (Log{"a starts", "b starts", "a ends", "b ends"}));
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(ScopeTest, JoiningAnEmptyOneDoesNotWait) {
    Scope scope;
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(loop().statistics().iteration_count, 0U);
}

TEST_P(ScopeTest, CanBeUsedAgainAfterItWasJoined) {
    Event event(loop());
    event.set();
    Log log;
    Scope scope;
    for (int i = 0; i < 3; ++i) {
        scope.spawn(wait_and_note(event, log, "a"));
        EXPECT_TRUE(block_on(loop(), scope.join()));
    }
    EXPECT_EQ(log.size(), 6U);
}

TEST_P(ScopeTest, JoinWaitsForTasksThatAreSpawnedMeanwhile) {
    Scope scope;
    int ended_count = 0;
    struct Spawner {
        static Task<void> run(Loop& loop, Scope& scope, int& ended, int generations) {
            EXPECT_TRUE(co_await yield(loop));
            if (generations > 0) {
                scope.spawn(run(loop, scope, ended, generations - 1));
            }
            ++ended;
        }
    };
    scope.spawn(Spawner::run(loop(), scope, ended_count, 9));
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(ended_count, 10);
}

TEST_P(ScopeTest, WhatWasCancelledHasEndedWhenJoinReturns) {
    Event event(loop());
    Log log;
    auto run = [](Event& on, Log& out) -> Task<void> {
        Scope scope;
        scope.spawn(wait_and_note(on, out, "a"));
        scope.cancel();
        EXPECT_EQ(out, (Log{"a starts"}));
        co_await scope.join();
        out.emplace_back("joined");
    };
    EXPECT_TRUE(block_on(loop(), run(event, log)));
    EXPECT_EQ(log, (Log{"a starts", "a is cancelled", "joined"}));
}

TEST_P(ScopeTest, ATaskSpawnedIntoACancelledOneStartsCancelled) {
    Event event(loop());
    Log log;
    Scope scope;
    scope.cancel();
    EXPECT_TRUE(scope.is_cancelled());
    scope.spawn(wait_and_note(event, log, "a"));
    EXPECT_EQ(log, (Log{"a starts", "a is cancelled"}));
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(ScopeTest, ATaskMayCancelItsOwn) {
    Event event(loop());
    Log log;
    Scope scope;
    auto cancel = [](Scope& own, Event& on, Log& out) -> Task<void> {
        own.cancel();
        co_await wait_and_note(on, out, "canceller");
    };
    scope.spawn(wait_and_note(event, log, "a"));
    scope.spawn(cancel(scope, event, log));
    EXPECT_EQ(log, (Log{"a starts", "canceller starts", "canceller is cancelled"}));
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(log.back(), "a is cancelled");
}

Task<void> parent(Event& event, Log& log, int depth) {
    Scope scope;
    if (depth > 0) {
        scope.spawn(parent(event, log, depth - 1));
    }
    scope.spawn(wait_and_note(event, log, "child " + std::to_string(depth)));
    co_await scope.join();
    log.push_back("parent " + std::to_string(depth));
}

TEST_P(ScopeTest, CancellingWhoWaitsInJoinCancelsTheTasksDownToTheLast) {
    Event event(loop());
    Log log;
    Scope scope;
    scope.spawn(parent(event, log, 2));
    log.clear();
    scope.cancel();
    EXPECT_EQ(log, Log{});
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(log, (Log{"child 0 is cancelled", "parent 0", "child 1 is cancelled", "parent 1",
                        "child 2 is cancelled", "parent 2"}));
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(ScopeTest, JoiningInACancelledTaskCancelsAndStillWaits) {
    Event event(loop());
    Log log;
    auto run = [](Loop& loop, Event& on, Log& out) -> Task<void> {
        Scope scope;
        scope.spawn(wait_and_note(on, out, "a"));
        EXPECT_FALSE(co_await sleep(loop, within(1h)));  // cancelled here
        EXPECT_EQ(out, (Log{"a starts"}));
        co_await scope.join();
        out.emplace_back("joined");
    };
    Scope scope;
    scope.spawn(run(loop(), event, log));
    scope.cancel();
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(log, (Log{"a starts", "a is cancelled", "joined"}));
}

TEST_P(ScopeTest, AJoinWithATimeoutCancelsWhatIsLeft) {
    Event event(loop());
    Log log;
    Scope scope;
    scope.spawn(wait_and_note(event, log, "slow"));
    const Result<void> joined = block_on(loop(), with_timeout(loop(), within(0s), scope.join()));
    EXPECT_EQ(error_of(joined), Errc::timed_out);
    EXPECT_EQ(log, (Log{"slow starts", "slow is cancelled"}));
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(ScopeTest, TheFrameOfATaskThatHasEndedIsFreedAtOnce) {
    Counted::Figures figures;
    Event event(loop());
    Event never(loop());
    Scope scope;
    auto hold = [](Event& on, Counted counted) -> Task<void> {
        static_cast<void>(counted);
        static_cast<void>(co_await on.wait());
    };
    scope.spawn(hold(never, Counted(figures)));
    for (int i = 0; i < 10; ++i) {
        scope.spawn(hold(event, Counted(figures)));
    }
    EXPECT_EQ(figures.alive(), 11);
    event.set();
    run_ready();
    EXPECT_EQ(figures.alive(), 1);
    EXPECT_EQ(scope.size(), 1U);
    scope.cancel();
    run_ready();
    EXPECT_EQ(figures.alive(), 0);
}

TEST_P(ScopeTest, ManyTasksEndInAnyOrder) {
    constexpr std::size_t kCount = 1'000;
    std::vector<std::unique_ptr<Event>> events;
    Log log;
    Scope scope;
    for (std::size_t i = 0; i < kCount; ++i) {
        events.push_back(std::make_unique<Event>(loop()));
        scope.spawn(wait_and_note(*events.back(), log, "a"));
    }
    std::size_t index = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        index = (index + 613) % kCount;  // each one once, for 613 is prime
        events[index]->set();
        if (i % 7 == 0) {
            run_ready();
        }
    }
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(log.size(), 2 * kCount);
}

TEST_P(ScopeTest, AParameterThatGoesMaySpawn) {
    struct SpawnsAtTheEnd {
        Loop* loop;
        Scope* scope;
        bool* has_run;
        bool is_moved_from = false;
        SpawnsAtTheEnd(Loop& on, Scope& into, bool& ran) : loop(&on), scope(&into), has_run(&ran) {}
        SpawnsAtTheEnd(SpawnsAtTheEnd&& other) noexcept
            : loop(other.loop), scope(other.scope), has_run(other.has_run) {
            other.is_moved_from = true;
        }
        SpawnsAtTheEnd(const SpawnsAtTheEnd&) = delete;
        ~SpawnsAtTheEnd() {
            if (!is_moved_from) {
                scope->spawn(run(*loop, *has_run));
            }
        }
        static Task<void> run(Loop& loop, bool& ran) { ran = (co_await yield(loop)).has_value(); }
    };
    Scope scope;
    bool has_run = false;
    auto hold = [](Loop& loop, SpawnsAtTheEnd spawner) -> Task<void> {
        static_cast<void>(spawner);
        EXPECT_TRUE(co_await yield(loop));
    };
    scope.spawn(hold(loop(), SpawnsAtTheEnd(loop(), scope, has_run)));
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_TRUE(has_run);
}

TEST_P(ScopeDeathTest, OneWithTasksMustNotGo) {
    EXPECT_DEATH(
        {
            Event event(loop());
            Log log;
            Scope scope;
            scope.spawn(wait_and_note(event, log, "a"));
        },
        "a scope goes before its tasks have ended");
}

TEST_P(ScopeDeathTest, OneIsJoinedByOneAtATime) {
    EXPECT_DEATH(
        {
            Event event(loop());
            Log log;
            Scope scope;
            scope.spawn(wait_and_note(event, log, "a"));
            Scope joiners;
            joiners.spawn(scope.join());
            joiners.spawn(scope.join());
        },
        "a scope is joined twice at a time");
}

BERTH_OVER_EVERY_ENGINE_OF(ScopeTest);
BERTH_OVER_EVERY_ENGINE_OF(ScopeDeathTest);

}  // namespace
}  // namespace berth::test
