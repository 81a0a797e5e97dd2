// SPDX-License-Identifier: Apache-2.0
#include <berth/signals.h>

#include <berth/scope.h>
#include <berth/task.h>

#include "tests/net/every_engine.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <vector>

namespace berth {
namespace {

using namespace std::chrono_literals;

class SignalTest : public EveryEngineTest {
protected:
    template <class... Numbers>
    SignalWatch watch(Numbers... numbers) {
        Result<SignalWatch> watch = SignalWatch::open(loop(), {numbers...});
        EXPECT_TRUE(watch) << watch.error().message();
        return watch ? std::move(*watch) : SignalWatch();
    }
};

bool is_blocked(int signal) {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    return sigismember(&set, signal) == 1;
}

int queue_to_self(int signal, int value) {
    return ::sigqueue(::getpid(), signal, sigval{.sival_int = value});
}

TEST_P(SignalTest, GivesTheSignalItsSenderAndItsValue) {
    SignalWatch watched = watch(SIGUSR1);
    std::optional<Result<Signal>> signal;
    const auto work = [&]() -> Detached { signal = co_await watched.next(); };
    work();
    EXPECT_TRUE(loop().run_once());
    EXPECT_FALSE(signal.has_value());
    ASSERT_EQ(queue_to_self(SIGUSR1, 4711), 0);
    ASSERT_TRUE(run_until([&] { return signal.has_value(); }));
    ASSERT_TRUE(*signal) << signal->error().message();
    EXPECT_EQ((*signal)->number, SIGUSR1);
    EXPECT_EQ((*signal)->code, SI_QUEUE);
    EXPECT_EQ((*signal)->sender_pid, ::getpid());
    EXPECT_EQ((*signal)->sender_uid, ::getuid());
    EXPECT_EQ((*signal)->value, 4711);
}

TEST_P(SignalTest, CallsBackWithAnOperationOfTheCallers) {
    SignalWatch watched = watch(SIGUSR1, SIGUSR2);
    std::vector<int> numbers;
    auto wait = handler<SignalOperation>([&](SignalOperation& done) {
        ASSERT_FALSE(done.has_failed());
        numbers.push_back(done.signal.number);
        if (numbers.size() < 2) {
            EXPECT_EQ(watched.wait(done), Start::pending);
        }
    });
    ASSERT_EQ(::raise(SIGUSR2), 0);
    EXPECT_EQ(watched.wait(wait), Start::pending) << "a handler is never answered at once";
    ASSERT_TRUE(run_until([&] { return numbers.size() == 1; }));
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    ASSERT_TRUE(run_until([&] { return numbers.size() == 2; }));
    EXPECT_THAT(numbers, testing::ElementsAre(SIGUSR2, SIGUSR1));
}

TEST_P(SignalTest, ASignalThatCameBeforeIsThereAtOnce) {
    SignalWatch watched = watch(SIGUSR1);
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    std::optional<Result<Signal>> signal;
    const auto work = [&]() -> Detached { signal = co_await watched.next(); };
    work();
    ASSERT_TRUE(signal.has_value());
    EXPECT_EQ((*signal)->number, SIGUSR1);
}

TEST_P(SignalTest, ASignalThatComesTwiceBeforeItIsTakenIsOne) {
    SignalWatch watched = watch(SIGUSR1);
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    std::vector<bool> outcomes;
    const auto work = [&]() -> Detached {
        for (int i = 0; i < 2; ++i) {
            outcomes.push_back((co_await watched.next(within(1ms))).has_value());
        }
    };
    work();
    ASSERT_TRUE(run_until([&] { return outcomes.size() == 2; }));
    EXPECT_THAT(outcomes, testing::ElementsAre(true, false));
}

TEST_P(SignalTest, RealtimeSignalsAreCountedAndKeepTheirOrder) {
    SignalWatch watched = watch(SIGRTMIN);
    for (int value = 1; value <= 3; ++value) {
        ASSERT_EQ(queue_to_self(SIGRTMIN, value), 0);
    }
    std::vector<int> values;
    const auto work = [&]() -> Detached {
        for (int i = 0; i < 3; ++i) {
            values.push_back((co_await watched.next())->value);
        }
    };
    work();
    ASSERT_TRUE(run_until([&] { return values.size() == 3; }));
    EXPECT_THAT(values, testing::ElementsAre(1, 2, 3));
}

TEST_P(SignalTest, SeveralWaitsTakeTurns) {
    SignalWatch watched = watch(SIGRTMIN);
    std::vector<int> takers;
    const auto work = [&](int taker) -> Detached {
        EXPECT_TRUE((co_await watched.next()).has_value());
        takers.push_back(taker);
    };
    work(1);
    work(2);
    EXPECT_TRUE(loop().run_once());
    ASSERT_EQ(queue_to_self(SIGRTMIN, 0), 0);
    ASSERT_TRUE(run_until([&] { return takers.size() == 1; }));
    ASSERT_EQ(queue_to_self(SIGRTMIN, 0), 0);
    ASSERT_TRUE(run_until([&] { return takers.size() == 2; }));
    EXPECT_THAT(takers, testing::ElementsAre(1, 2));
}

TEST_P(SignalTest, AWaitEndsAtItsDeadlineAndTheNextOneStillGetsTheSignal) {
    SignalWatch watched = watch(SIGUSR1);
    std::optional<Result<Signal>> signal;
    const auto work = [&](Deadline deadline) -> Detached {
        signal = co_await watched.next(deadline);
    };
    work(within(1ms));
    ASSERT_TRUE(run_until([&] { return signal.has_value(); }));
    EXPECT_EQ(signal->error().code(), Errc::timed_out);
    signal.reset();
    work({});
    ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
    ASSERT_TRUE(run_until([&] { return signal.has_value(); }));
    EXPECT_TRUE(signal->has_value());
}

TEST_P(SignalTest, ClosingCancelsWhatWaitsAndUnblocks) {
    EXPECT_FALSE(is_blocked(SIGUSR1));
    SignalWatch watched = watch(SIGUSR1);
    EXPECT_TRUE(is_blocked(SIGUSR1));
    std::optional<Result<Signal>> signal;
    const auto work = [&]() -> Detached { signal = co_await watched.next(); };
    work();
    EXPECT_TRUE(loop().run_once());
    watched.close();
    EXPECT_FALSE(watched.is_open());
    EXPECT_FALSE(is_blocked(SIGUSR1));
    ASSERT_TRUE(run_until([&] { return signal.has_value(); }));
    EXPECT_EQ(signal->error().code(), Errc::cancelled);
}

TEST_P(SignalTest, CancellingTheTaskEndsTheWait) {
    SignalWatch watched = watch(SIGUSR1);
    Scope tasks;
    std::vector<Errc> outcomes;
    const auto work = [&]() -> Task<void> {
        for (int i = 0; i < 2; ++i) {
            const Result<Signal> signal = co_await watched.next();
            outcomes.push_back(signal ? Errc::system : signal.error().code());
        }
    };
    tasks.spawn(work());
    tasks.cancel();
    ASSERT_TRUE(run_until([&] { return tasks.size() == 0; }));
    EXPECT_THAT(outcomes, testing::ElementsAre(Errc::cancelled, Errc::cancelled));
}

TEST_P(SignalTest, WhatWasBlockedBeforeStaysBlocked) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
    watch(SIGUSR1, SIGUSR2).close();
    EXPECT_FALSE(is_blocked(SIGUSR1));
    EXPECT_TRUE(is_blocked(SIGUSR2));
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, nullptr), 0);
}

TEST_P(SignalTest, ASignalHasOneWatch) {
    SignalWatch first = watch(SIGUSR1);
    const Result<SignalWatch> second = SignalWatch::open(loop(), {SIGUSR2, SIGUSR1});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Errc::invalid_argument);
    EXPECT_THAT(second.error().message(), testing::HasSubstr("USR1: "));
    const SignalWatch other = watch(SIGUSR2);
    EXPECT_TRUE(other.is_open()) << "the watch that was refused left nothing behind";
    first.close();
    EXPECT_TRUE(watch(SIGUSR1).is_open());
}

TEST_P(SignalTest, WhatCannotBeWaitedForIsRefused) {
    for (const int signal : {SIGKILL, SIGSTOP, SIGSEGV, 0, -1, 32, 1000}) {
        const Result<SignalWatch> watch = SignalWatch::open(loop(), {signal});
        ASSERT_FALSE(watch) << signal;
        EXPECT_EQ(watch.error().code(), Errc::invalid_argument);
    }
    EXPECT_FALSE(SignalWatch::open(loop(), std::initializer_list<int>()));
}

TEST_P(SignalTest, AClosedWatchAnswersWithAnError) {
    SignalWatch watched;
    std::optional<Result<Signal>> signal;
    const auto work = [&]() -> Detached { signal = co_await watched.next(); };
    work();
    ASSERT_TRUE(signal.has_value());
    EXPECT_EQ(signal->error().code(), Errc::invalid_argument);
}

TEST_P(SignalTest, AWatchDoesNotKeepTheLoopAliveByItself) {
    SignalWatch watched = watch(SIGUSR1);
    SignalOperation* pending = nullptr;
    auto wait = handler<SignalOperation>([&](SignalOperation& done) { pending = &done; });
    EXPECT_EQ(watched.wait(wait), Start::pending);
    wait.cancel();
    EXPECT_TRUE(loop().run());
    EXPECT_EQ(pending, &wait);
}

BERTH_TEST_EVERY_ENGINE(SignalTest);

}  // namespace
}  // namespace berth
