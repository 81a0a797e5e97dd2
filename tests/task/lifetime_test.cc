// SPDX-License-Identifier: Apache-2.0

// What gcc 12 does wrong with temporaries in `co_await` expressions, and that berth's forms of them
// are safe: everything is destroyed once.

#include "tests/task/task_test.h"

#include <berth/datagram_socket.h>
#include <berth/listener.h>
#include <berth/scope.h>
#include <berth/stream.h>
#include <berth/task.h>
#include <berth/timer.h>
#include <berth/when.h>

#include <array>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace berth::test {
namespace {

// What is written as an aggregate inside a `co_await` expression has nothing to destroy.
static_assert(std::is_trivially_destructible_v<Deadline>);
static_assert(std::is_trivially_destructible_v<ConnectOptions>);
static_assert(std::is_trivially_destructible_v<ListenOptions>);
static_assert(std::is_trivially_destructible_v<DatagramOptions>);
static_assert(std::is_trivially_destructible_v<Watermarks>);
static_assert(std::is_trivially_destructible_v<internal::TaskAwaiter<std::vector<int>>>);
static_assert(std::is_trivially_destructible_v<internal::AwaiterReference<SleepAwaiter>>);
// What owns something and may be written there has a constructor.
static_assert(!std::is_aggregate_v<Task<int>>);
static_assert(!std::is_aggregate_v<Lent>);
static_assert(!std::is_aggregate_v<Race<std::vector<int>>>);

class LifetimeTest : public EngineTest {
protected:
    Counted::Figures figures_;

    /// Runs `task`; everything that it made is destroyed once.
    void run(Task<void> task) {
        EXPECT_TRUE(block_on(loop(), std::move(task)));
        EXPECT_GT(figures_.made, 0);
        EXPECT_EQ(figures_.alive(), 0);
    }
};

/// An awaiter that owns something, as WriteAwaiter does, ready or not.
class OwningAwaiter final : public Awaiter<TimerOperation> {
public:
    OwningAwaiter(Loop& loop, Counted counted, bool is_ready)
        : Awaiter(&loop.state(), {}, within(0s)),
          counted_(std::move(counted)),
          is_ready_(is_ready) {}

    bool await_ready() noexcept { return is_ready_ || Awaiter::await_ready(); }
    Counted await_resume() noexcept { return std::move(counted_); }

private:
    Counted counted_;
    bool is_ready_;
};

OwningAwaiter own(Loop& loop, Counted counted, bool is_ready) {
    return {loop, std::move(counted), is_ready};
}

Task<Counted> give_back(Loop& loop, Counted counted, bool is_ready) {
    if (!is_ready) {
        EXPECT_TRUE(co_await yield(loop));
    }
    co_return std::move(counted);
}

Task<void> take(Loop& loop, Counted counted) {
    EXPECT_TRUE(counted.is_full());
    EXPECT_TRUE(co_await yield(loop));
}

TEST_P(LifetimeTest, AnArgumentMadeInTheExpression) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        for (const bool is_ready : {true, false}) {
            const Counted from_awaiter = co_await own(loop, Counted(made), is_ready);
            EXPECT_TRUE(from_awaiter.is_full());
            const Counted from_task = co_await give_back(loop, Counted(made), is_ready);
            EXPECT_TRUE(from_task.is_full());
        }
        co_await take(loop, Counted(made));
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, AnArgumentMovedIntoTheExpression) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        for (const bool is_ready : {true, false}) {
            Counted counted(made);
            Counted back = co_await own(loop, std::move(counted), is_ready);
            EXPECT_TRUE(back.is_full());
            const Counted again = co_await give_back(loop, std::move(back), is_ready);
            EXPECT_TRUE(again.is_full());
        }
        Counted last(made);
        co_await take(loop, std::move(last));
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, AValueThatIsThrownAwayOrUsedInPlace) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        for (const bool is_ready : {true, false}) {
            co_await own(loop, Counted(made), is_ready);
            EXPECT_TRUE((co_await own(loop, Counted(made), is_ready)).is_full());
            static_cast<void>(co_await give_back(loop, Counted(made), is_ready));
            EXPECT_TRUE((co_await give_back(loop, Counted(made), is_ready)).is_full());
        }
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, AConditionAndALoop) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        for (const bool is_ready : {true, false}) {
            if (!(co_await own(loop, Counted(made), is_ready)).is_full()) {
                ADD_FAILURE();
            }
            int rounds = 0;
            while (auto counted =
                       std::make_unique<Counted>(co_await own(loop, Counted(made), is_ready))) {
                if (++rounds == 3) {
                    break;
                }
            }
        }
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, AnExpressionWithinAnExpression) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        for (const bool is_ready : {true, false}) {
            const Counted counted = co_await give_back(
                loop, co_await give_back(loop, co_await own(loop, Counted(made), is_ready), true),
                is_ready);
            EXPECT_TRUE(counted.is_full());
        }
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, ANamedClosureWithCaptures) {
    auto apply = [](auto callable, Loop& loop) -> Task<void> {
        EXPECT_TRUE(co_await yield(loop));
        callable();
    };
    auto body = [](Loop& loop, Counted::Figures& made, auto& call) -> Task<void> {
        bool was_called = false;
        auto closure = [counted = Counted(made), &was_called] { was_called = counted.is_full(); };
        co_await call(std::move(closure), loop);
        EXPECT_TRUE(was_called);
    };
    run(body(loop(), figures_, apply));
}

Task<void> run_without_local_variable(Loop& loop, bool& was_run) {
    if (co_await yield(loop)) {
        was_run = true;
    }
}

Task<void> run_with_local_variable(Loop& loop, bool& was_run) {
    const bool is_right = true;
    if (co_await yield(loop)) {
        was_run = is_right;
    }
}

// gcc 12 puts the condition's value where the frame's own pointers belong.
TEST_P(LifetimeTest, AConditionInATaskWithoutLocalVariablesWorksOrSaysWhyNot) {
    bool was_run = false;
#if defined(__clang__) || __GNUC__ > 12
    EXPECT_TRUE(block_on(loop(), run_without_local_variable(loop(), was_run)));
    EXPECT_TRUE(was_run);
#else
    EXPECT_DEATH(static_cast<void>(block_on(loop(), run_without_local_variable(loop(), was_run))),
                 "a task is compiled wrong: gcc 12 misplaces");
#endif
}

TEST_P(LifetimeTest, ALocalVariableMendsSuchATask) {
    bool was_run = false;
    EXPECT_TRUE(block_on(loop(), run_with_local_variable(loop(), was_run)));
    EXPECT_TRUE(was_run);
}

TEST_P(LifetimeTest, SeveralTasksInOneExpression) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        for (const bool is_ready : {true, false}) {
            const auto [first, second] =
                co_await when_all(give_back(loop, Counted(made), is_ready),
                                  give_back(loop, co_await own(loop, Counted(made), true), true));
            EXPECT_TRUE(first.is_full());
            EXPECT_TRUE(second.is_full());
            auto race = co_await when_any(give_back(loop, Counted(made), is_ready),
                                          give_back(loop, Counted(made), true));
            EXPECT_EQ(race.index, is_ready ? 0U : 1U);
            EXPECT_TRUE(std::get<1>(race.values).is_full());
            const Result<Counted> timed =
                co_await with_timeout(loop, within(1h), give_back(loop, Counted(made), is_ready));
            EXPECT_TRUE(timed->is_full());
            EXPECT_EQ((co_await when_any(give_back(loop, Counted(made), true))).index, 0U);
        }
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, AVectorOfTasks) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        std::vector<Task<Counted>> tasks;
        for (int i = 0; i < 5; ++i) {
            tasks.push_back(give_back(loop, Counted(made), i % 2 == 0));
        }
        const std::vector<Counted> values = co_await when_all(std::move(tasks));
        EXPECT_EQ(values.size(), 5U);
    };
    run(body(loop(), figures_));
}

TEST_P(LifetimeTest, ASpawnedTaskAndItsParameters) {
    auto body = [](Loop& loop, Counted::Figures& made) -> Task<void> {
        Scope scope;
        scope.spawn(take(loop, Counted(made)));
        Counted counted(made);
        scope.spawn(take(loop, std::move(counted)));
        co_await scope.join();
        EXPECT_EQ(made.alive(), 1);  // the one that was moved from
    };
    run(body(loop(), figures_));
}

/// Memory that notes how often it was given back.
class CountingLender final : public internal::Lender {
public:
    Lent lend() { return {*this, lent_count_++, bytes_.data(), kSize}; }
    void take_back(std::uint32_t id) noexcept override {
        EXPECT_EQ(id, back_count_);
        ++back_count_;
    }
    std::uint32_t lent_count() const { return lent_count_; }
    std::uint32_t back_count() const { return back_count_; }

private:
    static constexpr std::uint32_t kSize = 4096;
    std::array<std::byte, kSize> bytes_{};
    std::uint32_t lent_count_ = 0;
    std::uint32_t back_count_ = 0;
};

TEST_P(LifetimeTest, LentMemoryThatIsSentIsGivenBackOnce) {
    CountingLender lender;
    Pair pair = connect_pair();
    auto body = [](Stream& stream, CountingLender& from) -> Task<void> {
        for (int i = 0; i < 10; ++i) {
            Lent lent = from.lend();
            EXPECT_TRUE(co_await stream.send(std::move(lent)));
            EXPECT_TRUE(co_await stream.send(from.lend()));
            if (!co_await stream.send(from.lend(), within(1h))) {
                ADD_FAILURE();
            }
        }
    };
    ASSERT_TRUE(block_on(loop(), body(pair.client, lender)));
    pair.client.close();
    run_ready();
    EXPECT_EQ(lender.lent_count(), 30U);
    EXPECT_EQ(lender.back_count(), 30U);
}

TEST_P(LifetimeTest, LentMemoryThatWaitsInACongestedQueueIsGivenBackOnce) {
    CountingLender lender;
    Pair pair = connect_pair();
    ASSERT_TRUE(pair.client.set_watermarks({.low = 1, .high = 4096}));
    auto send = [](Stream& stream, CountingLender& from) -> Task<void> {
        for (int i = 0; i < 500; ++i) {
            Lent lent = from.lend();
            if (!co_await stream.send(std::move(lent))) {
                ADD_FAILURE();
            }
        }
        stream.close();
    };
    auto receive = [](Stream& stream) -> Task<std::size_t> {
        std::size_t size = 0;
        while (Lent data = co_await stream.receive()) {
            size += data.size();
        }
        co_return size;
    };
    auto both = [](Task<void> first, Task<std::size_t> second) -> Task<std::size_t> {
        const auto [nothing, size] = co_await when_all(std::move(first), std::move(second));
        static_cast<void>(nothing);
        co_return size;
    };
    const Result<std::size_t> received =
        block_on(loop(), both(send(pair.client, lender), receive(pair.server)));
    EXPECT_EQ(received.value(), 500U * 4096);
    EXPECT_EQ(lender.back_count(), 500U);
}

BERTH_OVER_EVERY_ENGINE_OF(LifetimeTest);

}  // namespace
}  // namespace berth::test
