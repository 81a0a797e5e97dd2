// SPDX-License-Identifier: Apache-2.0
#include <berth/event.h>

#include "tests/task/task_test.h"

#include <berth/when.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace berth::test {
namespace {

class EventTest : public EngineTest {};
class SemaphoreTest : public EngineTest {};
class YieldTest : public EngineTest {};

TEST_P(EventTest, WakesAllThatWaitInTheirOrder) {
    Event event(loop());
    std::vector<int> order;
    Scope scope;
    auto wait = [](Event& on, std::vector<int>& out, int name) -> Task<void> {
        EXPECT_TRUE(co_await on.wait());
        out.push_back(name);
    };
    for (int i = 0; i < 4; ++i) {
        scope.spawn(wait(event, order, i));
    }
    event.set();
    EXPECT_EQ(order, std::vector<int>{});
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST_P(EventTest, OneThatIsSetIsNotWaitedFor) {
    Event event(loop());
    event.set();
    EXPECT_TRUE(event.is_set());
    auto wait = [](Event& on) -> Task<Result<void>> { co_return co_await on.wait(within(0s)); };
    EXPECT_TRUE(block_on(loop(), wait(event)));
    EXPECT_EQ(loop().statistics().iteration_count, 0U);
    event.reset();
    EXPECT_FALSE(event.is_set());
    EXPECT_EQ(error_of(block_on(loop(), wait(event))), Errc::timed_out);
}

TEST_P(EventTest, WhoWaitsIsWokenEvenIfItIsResetAtOnce) {
    Event event(loop());
    auto wait = [](Event& on, bool& out) -> Task<void> { out = (co_await on.wait()).has_value(); };
    bool was_woken = false;
    Scope scope;
    scope.spawn(wait(event, was_woken));
    event.set();
    event.reset();
    run_ready();
    EXPECT_TRUE(was_woken);
}

TEST_P(EventTest, ADeadlineEndsOneWaitOnly) {
    Event event(loop());
    std::vector<std::optional<Errc>> errors(3);
    Scope scope;
    auto wait = [](Event& on, Deadline deadline, std::optional<Errc>& out) -> Task<void> {
        out = error_of(co_await on.wait(deadline));
    };
    scope.spawn(wait(event, within(1h), errors[0]));
    scope.spawn(wait(event, within(0s), errors[1]));
    scope.spawn(wait(event, {}, errors[2]));
    while (scope.size() == 3) {
        ASSERT_TRUE(loop().run_once(within(1h)));
    }
    event.set();
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(errors,
              (std::vector<std::optional<Errc>>{std::nullopt, Errc::timed_out, std::nullopt}));
}

TEST_P(EventTest, OneThatGoesCancelsItsWaits) {
    auto event = std::make_unique<Event>(loop());
    std::optional<Errc> error;
    Scope scope;
    auto wait = [](Event& on, std::optional<Errc>& out) -> Task<void> {
        out = error_of(co_await on.wait());
    };
    scope.spawn(wait(*event, error));
    event.reset();
    run_ready();
    EXPECT_EQ(error, Errc::cancelled);
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(EventTest, CompletesAnOperationWithACallback) {
    Event event(loop());
    int completed_count = 0;
    auto wait = handler<WaitOperation>([&](WaitOperation& done) {
        EXPECT_FALSE(done.has_failed());
        ++completed_count;
    });
    EXPECT_EQ(event.wait(wait), Start::pending);
    event.set();
    run_ready();
    EXPECT_EQ(completed_count, 1);
    // It is set, and a handler is called all the same, from the loop.
    EXPECT_EQ(event.wait(wait), Start::pending);
    EXPECT_EQ(completed_count, 1);
    run_ready();
    EXPECT_EQ(completed_count, 2);
}

TEST_P(EventTest, IsSetFromAnotherThreadByWayOfTheLoop) {
    need_threads();
    if (IsSkipped()) return;
    Event event(loop());
    std::thread other([&] { loop().post([&event] { event.set(); }); });
    auto wait = [](Event& on) -> Task<Result<void>> { co_return co_await on.wait(); };
    EXPECT_TRUE(block_on(loop(), wait(event)));
    other.join();
}

TEST_P(SemaphoreTest, LetsInAsManyAsItCounts) {
    Semaphore semaphore(loop(), 3);
    struct State {
        int inside = 0;
        int most = 0;
    } state;
    Scope scope;
    auto enter = [](Loop& loop, Semaphore& door, State& out) -> Task<void> {
        EXPECT_TRUE(co_await door.acquire());
        out.most = std::max(out.most, ++out.inside);
        EXPECT_TRUE(co_await yield(loop));
        EXPECT_TRUE(co_await yield(loop));
        --out.inside;
        door.release();
    };
    for (int i = 0; i < 50; ++i) {
        scope.spawn(enter(loop(), semaphore, state));
    }
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(state.most, 3);
    EXPECT_EQ(state.inside, 0);
    EXPECT_EQ(semaphore.count(), 3U);
}

TEST_P(SemaphoreTest, IsFair) {
    Semaphore semaphore(loop(), 0);
    std::vector<int> order;
    Scope scope;
    auto acquire = [](Semaphore& from, std::vector<int>& out, int name) -> Task<void> {
        EXPECT_TRUE(co_await from.acquire());
        out.push_back(name);
    };
    for (int i = 0; i < 3; ++i) {
        scope.spawn(acquire(semaphore, order, i));
    }
    semaphore.release();
    // What was released belongs to the first of those that wait.
    EXPECT_FALSE(semaphore.try_acquire());
    scope.spawn(acquire(semaphore, order, 3));
    semaphore.release(5);
    EXPECT_EQ(semaphore.count(), 2U);
    run_ready();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_TRUE(semaphore.try_acquire());
    EXPECT_TRUE(semaphore.try_acquire());
    EXPECT_FALSE(semaphore.try_acquire());
}

TEST_P(SemaphoreTest, WhoIsCancelledOrTooLateTakesNothing) {
    Semaphore semaphore(loop(), 0);
    std::optional<Errc> late;
    std::optional<Errc> cancelled;
    auto acquire = [](Semaphore& from, Deadline deadline, std::optional<Errc>& out) -> Task<void> {
        out = error_of(co_await from.acquire(deadline));
    };
    Scope lates;
    Scope cancels;
    lates.spawn(acquire(semaphore, within(0s), late));
    cancels.spawn(acquire(semaphore, {}, cancelled));
    cancels.cancel();
    EXPECT_TRUE(block_on(loop(), lates.join()));
    EXPECT_TRUE(block_on(loop(), cancels.join()));
    EXPECT_EQ(late, Errc::timed_out);
    EXPECT_EQ(cancelled, Errc::cancelled);
    semaphore.release();
    EXPECT_EQ(semaphore.count(), 1U);
}

TEST_P(SemaphoreTest, OneThatWasGivenBeforeTheCancellationIsHad) {
    Semaphore semaphore(loop(), 0);
    std::optional<Errc> error = Errc::system;
    Scope scope;
    auto acquire = [](Semaphore& from, std::optional<Errc>& out) -> Task<void> {
        out = error_of(co_await from.acquire());
    };
    scope.spawn(acquire(semaphore, error));
    semaphore.release();
    scope.cancel();
    run_ready();
    EXPECT_EQ(error, std::nullopt);
    EXPECT_EQ(semaphore.count(), 0U);
}

TEST_P(YieldTest, LetsTheOthersRunAndGoesOnInTheNextIteration) {
    std::vector<int> order;
    Scope scope;
    auto take_turns = [](Loop& loop, std::vector<int>& out, int name) -> Task<void> {
        for (int i = 0; i < 3; ++i) {
            out.push_back(name);
            EXPECT_TRUE(co_await yield(loop));
        }
    };
    scope.spawn(take_turns(loop(), order, 1));
    scope.spawn(take_turns(loop(), order, 2));
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    ASSERT_TRUE(loop().run_once(within(1h)));
    EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2}));
    EXPECT_TRUE(block_on(loop(), scope.join()));
    EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST_P(YieldTest, AnOperationAlongsideIsNotStarved) {
    Event event(loop());
    // Simulated time stands still while a loop has something to do.
    const std::function<void()> work = [this] { let_pass(1us); };
    auto spin = [](Loop& loop, Event& until, const std::function<void()>& step) -> Task<int> {
        int turns = 0;
        while (!until.is_set()) {
            step();
            EXPECT_TRUE(co_await yield(loop));
            ++turns;
        }
        co_return turns;
    };
    auto set_later = [](Loop& loop, Event& on) -> Task<void> {
        EXPECT_TRUE(co_await sleep(loop, within(2ms)));
        on.set();
    };
    const auto done =
        block_on(loop(), when_all(spin(loop(), event, work), set_later(loop(), event)));
    EXPECT_GT(std::get<0>(done.value()), 0);
}

BERTH_OVER_EVERY_ENGINE_OF(EventTest);
BERTH_OVER_EVERY_ENGINE_OF(SemaphoreTest);
BERTH_OVER_EVERY_ENGINE_OF(YieldTest);

}  // namespace
}  // namespace berth::test
