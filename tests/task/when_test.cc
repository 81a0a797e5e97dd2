// SPDX-License-Identifier: Apache-2.0
#include <berth/when.h>

#include "tests/task/task_test.h"

#include <berth/scope.h>
#include <berth/timer.h>

#include <memory>
#include <tuple>
#include <variant>
#include <vector>

namespace berth::test {
namespace {

class WhenTest : public EngineTest {};

Task<int> give(Loop& loop, int value, int turns) {
    for (int i = 0; i < turns; ++i) {
        static_cast<void>(co_await yield(loop));
    }
    co_return value;
}

Task<void> nothing() { co_return; }

Task<Result<int>> wait_and_give(Event& event, int value) {
    if (const Result<void> waited = co_await event.wait(); !waited) {
        co_return std::unexpected(waited.error());
    }
    co_return value;
}

TEST_P(WhenTest, AllGivesEveryValueInTheOrderOfTheTasks) {
    const auto values = block_on(
        loop(), when_all(give(loop(), 1, 3), nothing(), give(loop(), 2, 0), give(loop(), 3, 1)));
    ASSERT_TRUE(values);
    EXPECT_EQ(*values, std::tuple(1, std::monostate(), 2, 3));
}

TEST_P(WhenTest, AllOfNothingIsReady) {
    EXPECT_TRUE(block_on(loop(), when_all()));
    EXPECT_TRUE(block_on(loop(), when_all(std::vector<Task<int>>()))->empty());
    EXPECT_EQ(loop().statistics().iteration_count, 0U);
}

TEST_P(WhenTest, AllOfAVectorGivesAVector) {
    std::vector<Task<int>> tasks;
    std::vector<int> expected;
    for (int i = 0; i < 100; ++i) {
        tasks.push_back(give(loop(), i, i % 3));
        expected.push_back(i);
    }
    EXPECT_EQ(block_on(loop(), when_all(std::move(tasks))).value(), expected);
}

TEST_P(WhenTest, AllOfAVectorOfVoid) {
    std::vector<Task<void>> tasks;
    tasks.push_back(nothing());
    tasks.push_back(nothing());
    EXPECT_EQ(block_on(loop(), when_all(std::move(tasks)))->size(), 2U);
}

TEST_P(WhenTest, AllRunSideBySide) {
    Event first(loop());
    Event second(loop());
    auto meet = [](Event& mine, Event& other) -> Task<bool> {
        mine.set();
        co_return (co_await other.wait()).has_value();
    };
    const auto met = block_on(loop(), when_all(meet(first, second), meet(second, first)));
    EXPECT_EQ(met.value(), std::tuple(true, true));
}

TEST_P(WhenTest, AMillionReadyTasks) {
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 100'000; ++i) {
        tasks.push_back(give(loop(), 1, 0));
    }
    EXPECT_EQ(block_on(loop(), when_all(std::move(tasks)))->size(), 100'000U);
    auto many = [](Loop& loop) -> Task<int> {
        int sum = 0;
        for (int i = 0; i < 300'000; ++i) {
            sum += std::get<0>(co_await when_all(give(loop, 1, 0), give(loop, 2, 0)));
        }
        co_return sum;
    };
    EXPECT_EQ(block_on(loop(), many(loop())).value(), 300'000);
}

TEST_P(WhenTest, AnyGivesTheFirstAndCancelsTheOthers) {
    Event event(loop());
    Event never(loop());
    auto race = block_on(
        loop(), when_any(wait_and_give(never, 1), give(loop(), 2, 2), wait_and_give(never, 3)));
    ASSERT_TRUE(race);
    EXPECT_EQ(race->index, 1U);
    EXPECT_EQ(error_of(std::get<0>(race->values)), Errc::cancelled);
    EXPECT_EQ(std::get<1>(race->values), 2);
    EXPECT_EQ(error_of(std::get<2>(race->values)), Errc::cancelled);
    EXPECT_EQ(loop().statistics().pending_count, 0U);
}

TEST_P(WhenTest, ATaskThatNeedsNoWaitingWinsAtOnceAndThoseBehindItStartCancelled) {
    Event set(loop());
    set.set();
    auto race = block_on(loop(), when_any(wait_and_give(set, 1), wait_and_give(set, 2)));
    ASSERT_TRUE(race);
    EXPECT_EQ(race->index, 0U);
    EXPECT_EQ(std::get<0>(race->values).value(), 1);
    EXPECT_EQ(error_of(std::get<1>(race->values)), Errc::cancelled);
}

TEST_P(WhenTest, AnyWaitsForALoserThatTakesItsTime) {
    Event never(loop());
    bool has_ended = false;
    auto slow = [](Loop& loop, Event& on, bool& ended) -> Task<void> {
        Scope scope;
        EXPECT_FALSE(co_await on.wait());
        scope.spawn(
            [](Loop& on_loop) -> Task<void> { EXPECT_TRUE(co_await yield(on_loop)); }(loop));
        EXPECT_EQ(scope.size(), 1U);
        co_await scope.join();
        ended = true;
    };
    auto race = block_on(loop(), when_any(slow(loop(), never, has_ended), give(loop(), 1, 1)));
    EXPECT_EQ(race->index, 1U);
    EXPECT_TRUE(has_ended);
}

TEST_P(WhenTest, ALoserThatSucceedsAllTheSameIsNotLost) {
    Event event(loop());
    auto set = [](Event& both) -> Task<Result<int>> {
        both.set();
        co_return 2;
    };
    auto race = block_on(loop(), when_any(wait_and_give(event, 1), set(event)));
    EXPECT_EQ(race->index, 1U);
    EXPECT_EQ(std::get<0>(race->values).value(), 1);
    EXPECT_EQ(std::get<1>(race->values).value(), 2);
}

TEST_P(WhenTest, AnyOfAVector) {
    Event never(loop());
    std::vector<Task<Result<int>>> tasks;
    Event event(loop());
    for (int i = 0; i < 10; ++i) {
        tasks.push_back(wait_and_give(i == 6 ? event : never, i));
    }
    auto run = [](Event& on, std::vector<Task<Result<int>>> all) -> Task<int> {
        Scope scope;
        scope.spawn([](Event& later) -> Task<void> {
            later.set();
            co_return;
        }(on));
        auto race = co_await when_any(std::move(all));
        EXPECT_EQ(race.index, 6U);
        co_await scope.join();
        co_return race.values[6].value();
    };
    EXPECT_EQ(block_on(loop(), run(event, std::move(tasks))).value(), 6);
}

TEST_P(WhenTest, ACancellationFromOutsidePassesThroughAll) {
    Event never(loop());
    Scope scope;
    int cancelled_count = 0;
    auto run = [](Loop& loop, Event& on, int& count) -> Task<void> {
        const auto [all, any, timed] =
            co_await when_all(when_all(wait_and_give(on, 1), wait_and_give(on, 2)),
                              when_any(wait_and_give(on, 3), wait_and_give(on, 4)),
                              with_timeout(loop, within(1h), wait_and_give(on, 5)));
        count += error_of(std::get<0>(all)) == Errc::cancelled ? 1 : 0;
        count += error_of(std::get<1>(all)) == Errc::cancelled ? 1 : 0;
        count += error_of(std::get<0>(any.values)) == Errc::cancelled ? 1 : 0;
        count += error_of(std::get<1>(any.values)) == Errc::cancelled ? 1 : 0;
        count += error_of(timed) == Errc::cancelled ? 1 : 0;
    };
    scope.spawn(run(loop(), never, cancelled_count));
    EXPECT_EQ(loop().statistics().pending_count, 6U);
    scope.cancel();
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(cancelled_count, 5);
    EXPECT_EQ(loop().statistics().pending_count, 0U);
}

TEST_P(WhenTest, WhatIsStartedInACancelledTaskStartsCancelled) {
    Event set(loop());
    set.set();
    Scope scope;
    scope.cancel();
    auto run = [](Loop& loop, Event& on) -> Task<void> {
        const auto [first, second] =
            co_await when_all(wait_and_give(on, 1), with_timeout(loop, {}, wait_and_give(on, 2)));
        EXPECT_EQ(error_of(first), Errc::cancelled);
        EXPECT_EQ(error_of(second), Errc::cancelled);
    };
    scope.spawn(run(loop(), set));
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(WhenTest, ATimeoutThatDoesNotPassChangesNothing) {
    EXPECT_EQ(block_on(loop(), with_timeout(loop(), within(1h), give(loop(), 7, 2))).value(), 7);
    EXPECT_EQ(block_on(loop(), with_timeout(loop(), {}, give(loop(), 7, 2))).value(), 7);
    EXPECT_TRUE(block_on(loop(), with_timeout(loop(), within(1h), nothing())));
    Event set(loop());
    set.set();
    EXPECT_EQ(block_on(loop(), with_timeout(loop(), within(1h), wait_and_give(set, 8))).value(), 8);
    EXPECT_EQ(loop().statistics().pending_count, 0U);
}

TEST_P(WhenTest, ATimeoutCancelsItsTaskAndSaysSo) {
    Event never(loop());
    const Result<int> of_result =
        block_on(loop(), with_timeout(loop(), within(1ms), wait_and_give(never, 1)));
    EXPECT_EQ(error_of(of_result), Errc::timed_out);
    EXPECT_EQ(of_result.error().message(), "run task: timed out");
    auto wait = [](Event& on, bool& ended) -> Task<void> {
        EXPECT_FALSE(co_await on.wait());
        ended = true;
    };
    bool has_ended = false;
    const Result<void> of_void =
        block_on(loop(), with_timeout(loop(), at(loop().now()), wait(never, has_ended)));
    EXPECT_EQ(error_of(of_void), Errc::timed_out);
    EXPECT_TRUE(has_ended);
}

TEST_P(WhenTest, ATaskThatSucceedsInSpiteOfItsTimeoutHasSucceeded) {
    Event never(loop());
    auto try_twice = [](Event& on) -> Task<Result<int>> {
        EXPECT_FALSE(co_await on.wait());
        co_return 3;
    };
    EXPECT_EQ(block_on(loop(), with_timeout(loop(), within(0s), try_twice(never))).value(), 3);
    auto fail = [](Event& on) -> Task<Result<int>> {
        EXPECT_FALSE(co_await on.wait());
        co_return std::unexpected(Error(Errc::reset, "receive"));
    };
    EXPECT_EQ(error_of(block_on(loop(), with_timeout(loop(), within(0s), fail(never)))),
              Errc::reset);
}

TEST_P(WhenTest, OfTwoTimeoutsTheOneThatPassesIsTheOuterOne) {
    Event never(loop());
    auto inner = [](Loop& loop, Event& on, std::optional<Errc>& seen) -> Task<Result<int>> {
        Result<int> value = co_await with_timeout(loop, within(1h), wait_and_give(on, 1));
        seen = error_of(value);
        co_return value;
    };
    std::optional<Errc> seen_inside;
    const Result<int> outside =
        block_on(loop(), with_timeout(loop(), within(1ms), inner(loop(), never, seen_inside)));
    EXPECT_EQ(seen_inside, Errc::cancelled);
    EXPECT_EQ(error_of(outside), Errc::timed_out);
}

TEST_P(WhenTest, ALoopThatEndsIsNoTimeout) {
    Scope scope;
    std::optional<Errc> seen;
    auto run = [](Loop& loop, std::optional<Errc>& out) -> Task<void> {
        auto wait = [](Loop& on) -> Task<Result<void>> {
            co_return co_await sleep(on, within(2h));
        };
        out = error_of(co_await with_timeout(loop, within(1h), wait(loop)));
    };
    scope.spawn(run(loop(), seen));
    end_loop();
    EXPECT_EQ(seen, Errc::cancelled);
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(WhenTest, ValuesAreMovedOnly) {
    auto make = [](Loop& loop, int value) -> Task<std::unique_ptr<int>> {
        EXPECT_TRUE(co_await yield(loop));
        co_return std::make_unique<int>(value);
    };
    auto both = block_on(loop(), when_all(make(loop(), 1), make(loop(), 2)));
    EXPECT_EQ(*std::get<1>(*both), 2);
    auto race = block_on(loop(), when_any(make(loop(), 3)));
    EXPECT_EQ(*std::get<0>(race->values), 3);
    auto timed = block_on(loop(), with_timeout(loop(), within(1h), make(loop(), 4)));
    EXPECT_EQ(**timed, 4);
}

BERTH_OVER_EVERY_ENGINE_OF(WhenTest);

}  // namespace
}  // namespace berth::test
