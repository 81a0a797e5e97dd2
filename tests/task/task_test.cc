// SPDX-License-Identifier: Apache-2.0
#include <berth/task.h>

#include "src/base/system_calls.h"
#include "tests/task/task_test.h"

#include <berth/timer.h>

#include <cerrno>
#include <coroutine>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace berth::test {
namespace {

class TaskTest : public EngineTest {};
class TaskDeathTest : public EngineTest {};

Task<int> give(int value) { co_return value; }

Task<int> give_later(Loop& loop, int value) {
    EXPECT_TRUE(co_await yield(loop));
    co_return value;
}

Task<int> add(Loop& loop, int first, int second) {
    co_return co_await give(first) + co_await give_later(loop, second);
}

TEST_P(TaskTest, GivesItsValueToWhoAwaitsIt) {
    EXPECT_EQ(block_on(loop(), add(loop(), 40, 2)).value(), 42);
}

TEST_P(TaskTest, ValuesNeedNoDefaultAndNoCopy) {
    struct Odd {
        explicit Odd(int number) : value(std::make_unique<int>(number)) {}
        std::unique_ptr<int> value;
    };
    auto make = [](Loop& loop) -> Task<Odd> {
        static_cast<void>(co_await yield(loop));
        co_return Odd(3);
    };
    auto pass = [](Loop& loop, Task<Odd> task) -> Task<Odd> {
        static_cast<void>(loop);
        Odd odd = co_await std::move(task);
        co_return odd;
    };
    Result<Odd> odd = block_on(loop(), pass(loop(), make(loop())));
    EXPECT_EQ(*odd->value, 3);
}

TEST_P(TaskTest, AResultIsGivenAsItIsAndNotWrapped) {
    auto fail = [](bool fails) -> Task<Result<int>> {
        if (fails) {
            co_return std::unexpected(Error(Errc::refused, "connect"));
        }
        co_return 5;
    };
    const Result<int> good = block_on(loop(), fail(false));
    EXPECT_EQ(good.value(), 5);
    const Result<int> bad = block_on(loop(), fail(true));
    EXPECT_EQ(error_of(bad), Errc::refused);
}

TEST_P(TaskTest, RunsOnlyWhenItIsAwaited) {
    bool has_run = false;
    auto run = [](bool& ran) -> Task<void> {
        ran = true;
        co_return;
    };
    {
        const Task<void> never = run(has_run);
    }
    EXPECT_FALSE(has_run);
    EXPECT_TRUE(block_on(loop(), run(has_run)));
    EXPECT_TRUE(has_run);
}

TEST_P(TaskTest, OneThatNeverRunsFreesItsParameters) {
    Counted::Figures figures;
    auto hold = [](Counted counted) -> Task<void> {
        static_cast<void>(counted);
        co_return;
    };
    {
        const Task<void> never = hold(Counted(figures));
        EXPECT_EQ(figures.alive(), 1);
    }
    EXPECT_EQ(figures.alive(), 0);
}

// Where symmetric transfer is no tail call, a task that suspended for each child would overflow the
// stack long before.
TEST_P(TaskTest, AMillionReadyChildrenNeedNoStack) {
    constexpr int kCount = 1'000'000;
    auto count = []() -> Task<int> {
        int sum = 0;
        for (int i = 0; i < kCount; ++i) {
            sum += co_await give(1);
        }
        co_return sum;
    };
    EXPECT_EQ(block_on(loop(), count()).value(), kCount);
}

TEST_P(TaskTest, ALoopOfWaitingAndReadyChildrenNeedsNoStack) {
    auto count = [](Loop& loop) -> Task<int> {
        int sum = 0;
        for (int i = 0; i < 20'000; ++i) {
            sum += co_await give(1);
            sum += co_await give_later(loop, 1);
        }
        co_return sum;
    };
    EXPECT_EQ(block_on(loop(), count(loop())).value(), 40'000);
}

Task<int> nest(Loop& loop, int depth) {
    if (depth == 0) {
        co_return co_await give_later(loop, 0);
    }
    co_return 1 + co_await nest(loop, depth - 1);
}

TEST_P(TaskTest, TasksNestDeeply) {
    EXPECT_EQ(block_on(loop(), nest(loop(), 2'000)).value(), 2'000);
}

Task<Result<void>> wait_for(Event& event) { co_return co_await event.wait(); }

Task<Result<void>> wait_below(Event& event, int depth) {
    if (depth == 0) {
        co_return co_await event.wait();
    }
    co_return co_await wait_below(event, depth - 1);
}

TEST_P(TaskTest, CancellingReachesTheOperationAtTheEndOfTheChain) {
    Event event(loop());
    Scope scope;
    std::optional<Result<void>> result;
    auto run = [](Event& on, std::optional<Result<void>>& out) -> Task<void> {
        out = co_await wait_below(on, 5);
    };
    scope.spawn(run(event, result));
    scope.cancel();
    EXPECT_FALSE(result);  // nothing runs inside cancel()
    run_ready();
    ASSERT_TRUE(result);
    EXPECT_EQ(error_of(*result), Errc::cancelled);
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(TaskTest, AfterACancellationNoOperationStarts) {
    Event event(loop());
    Event set(loop());
    set.set();
    Scope scope;
    std::vector<std::optional<Errc>> errors;
    auto run = [](Loop& loop, Event& never, Event& always,
                  std::vector<std::optional<Errc>>& out) -> Task<void> {
        out.push_back(error_of(co_await never.wait()));
        out.push_back(error_of(co_await always.wait()));
        out.push_back(error_of(co_await yield(loop)));
        out.push_back(error_of(co_await sleep(loop, within(0s))));
        out.push_back(error_of(co_await wait_for(always)));
    };
    scope.spawn(run(loop(), event, set, errors));
    scope.cancel();
    ASSERT_TRUE(loop().run_once());
    EXPECT_EQ(errors, (std::vector<std::optional<Errc>>(5, Errc::cancelled)));
}

TEST_P(TaskTest, AResultThatIsThereAlreadyIsNotLostToACancellation) {
    Event event(loop());
    Scope scope;
    std::optional<Result<void>> result;
    auto run = [](Event& on, std::optional<Result<void>>& out) -> Task<void> {
        out = co_await on.wait();
    };
    scope.spawn(run(event, result));
    event.set();
    scope.cancel();
    run_ready();
    EXPECT_TRUE(result.value());
}

TEST_P(TaskTest, OneThatIsDestroyedEndsItsOperation) {
    Counted::Figures figures;
    auto wait = [](Loop& loop, Counted counted) -> Task<void> {
        static_cast<void>(counted);
        EXPECT_FALSE(co_await sleep(loop, within(1h)));
    };
    // A coroutine that starts its task and then leaves it.
    struct Starter {
        struct promise_type {
            Starter get_return_object() {
                return {std::coroutine_handle<promise_type>::from_promise(*this)};
            }
            std::suspend_never initial_suspend() noexcept { return {}; }
            std::suspend_always final_suspend() noexcept { return {}; }
            void return_void() {}
            void unhandled_exception() { std::terminate(); }
        };
        std::coroutine_handle<promise_type> handle;
    };
    auto start = [](Task<void> task) -> Starter { co_await std::move(task); };
    const Starter starter = start(wait(loop(), Counted(figures)));
    EXPECT_EQ(figures.alive(), 1);
    EXPECT_EQ(loop().statistics().pending_count, 1U);
    starter.handle.destroy();
    EXPECT_EQ(figures.alive(), 0);
    EXPECT_EQ(loop().statistics().pending_count, 0U);
}

TEST_P(TaskTest, IsAwaitedByOtherCoroutineTypesToo) {
    struct Detached {
        struct promise_type {
            Detached get_return_object() { return {}; }
            std::suspend_never initial_suspend() noexcept { return {}; }
            std::suspend_never final_suspend() noexcept { return {}; }
            void return_void() {}
            void unhandled_exception() { std::terminate(); }
        };
    };
    int sum = 0;
    auto run = [](Loop& loop, int& out) -> Detached { out = co_await add(loop, 1, 2); };
    run(loop(), sum);
    run_ready();
    EXPECT_EQ(sum, 3);
}

TEST_P(TaskTest, AwaitsOtherAwaitablesToo) {
    struct Now {
        bool await_ready() const { return true; }
        void await_suspend(std::coroutine_handle<>) const {}
        int await_resume() const { return 7; }
    };
    struct WithOperator {
        Now operator co_await() const { return {}; }
    };
    auto run = []() -> Task<int> {
        Now now;
        co_return co_await now + co_await Now() + co_await WithOperator();
    };
    EXPECT_EQ(block_on(loop(), run()).value(), 21);
}

TEST_P(TaskTest, StoppingTheLoopCancelsWhatItIsBlockedOn) {
    auto run = [](Loop& loop) -> Task<Result<void>> {
        loop.stop();
        co_return co_await sleep(loop, within(1h));
    };
    EXPECT_EQ(error_of(block_on(loop(), run(loop()))), Errc::cancelled);
    // The stop is used up.
    EXPECT_EQ(block_on(loop(), give_later(loop(), 1)).value(), 1);
}

TEST_P(TaskTest, AStopFromAnotherThreadWakesTheLoop) {
    need_threads();
    if (IsSkipped()) return;
    std::thread other;
    auto run = [](Loop& loop, std::thread& thread) -> Task<Result<void>> {
        thread = std::thread([&loop] { loop.stop(); });
        co_return co_await sleep(loop, within(1h));
    };
    EXPECT_EQ(error_of(block_on(loop(), run(loop(), other))), Errc::cancelled);
    other.join();
}

TEST_P(TaskTest, ATaskThatNeedsNoLoopDoesNotStopTheNextRun) {
    EXPECT_EQ(block_on(loop(), give(1)).value(), 1);
    EXPECT_EQ(block_on(loop(), give_later(loop(), 2)).value(), 2);
}

TEST_P(TaskTest, ALoopThatEndsFirstCancels) {
    Scope scope;
    std::optional<Result<void>> result;
    auto run = [](Loop& loop, std::optional<Result<void>>& out) -> Task<void> {
        out = co_await sleep(loop, within(1h));
        EXPECT_FALSE(co_await sleep(loop, within(1h)));
    };
    scope.spawn(run(loop(), result));
    end_loop();
    EXPECT_EQ(error_of(result.value()), Errc::cancelled);
    EXPECT_EQ(scope.size(), 0U);
}

TEST_P(TaskTest, ALoopThatCannotGoOnIsAnError) {
    if (GetParam() == EngineKind::io_uring) {
        GTEST_SKIP() << "its waiting system call is not replaced";
    }
    internal::SystemCalls broken = internal::kernel_calls();
    broken.epoll_pwait2 = [](int, epoll_event*, int, const timespec*, const sigset_t*) {
        errno = ENOMEM;
        return -1;
    };
    broken.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t*) {
        errno = ENOMEM;
        return -1;
    };
    broken.pselect = [](int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*) {
        errno = ENOMEM;
        return -1;
    };
    const internal::ScopedSystemCalls scope(broken);
    Counted::Figures figures;
    auto wait = [](Loop& loop, Counted counted) -> Task<Result<void>> {
        static_cast<void>(counted);
        co_return co_await sleep(loop, within(1h));
    };
    EXPECT_EQ(error_of(block_on(loop(), wait(loop(), Counted(figures)))), Errc::out_of_memory);
    EXPECT_EQ(figures.alive(), 0);
}

TEST_P(TaskDeathTest, AnExceptionThatLeavesATaskEndsTheProgramAndIsNamed) {
    auto fail = []() -> Task<void> {
        throw std::runtime_error("the reason");
        co_return;
    };
    EXPECT_DEATH(static_cast<void>(block_on(loop(), fail())),
                 "berth: an exception has left a task: the reason");
}

TEST_P(TaskDeathTest, ATaskIsAwaitedOnceOnly) {
    auto twice = []() -> Task<void> {
        Task<int> task = give(1);
        static_cast<void>(co_await std::move(task));
        // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
        static_cast<void>(co_await std::move(task));
    };
    EXPECT_DEATH(static_cast<void>(block_on(loop(), twice())), "awaited a second time");
}

TEST_P(TaskDeathTest, AnEmptyTaskCannotBeAwaited) {
    auto run = []() -> Task<void> { co_await Task<void>(); };
    EXPECT_DEATH(static_cast<void>(block_on(loop(), run())), "a task is awaited that is empty");
    EXPECT_DEATH(static_cast<void>(block_on(loop(), Task<void>())), "a task is awaited that is");
}

BERTH_OVER_EVERY_ENGINE_OF(TaskTest);
BERTH_OVER_EVERY_ENGINE_OF(TaskDeathTest);

}  // namespace
}  // namespace berth::test
