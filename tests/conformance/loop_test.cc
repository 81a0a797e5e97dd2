// SPDX-License-Identifier: Apache-2.0
#include "src/base/system_calls.h"
#include "tests/conformance/engines.h"

#include <berth/event.h>
#include <berth/timer.h>

#include <sys/socket.h>

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class LoopTest : public EngineTest {};

TEST_P(LoopTest, IsOfTheEngineThatWasAskedFor) {
    EXPECT_EQ(loop().engine(), GetParam());
    EXPECT_EQ(loop().engine_note(), "");
}

TEST_P(LoopTest, RunReturnsWhenNothingIsPending) { EXPECT_TRUE(loop().run().has_value()); }

TEST_P(LoopTest, TimersFireInTheOrderOfTheirDeadlines) {
    std::string order;
    Timer third(loop(), [&] { order += '3'; });
    Timer first(loop(), [&] { order += '1'; });
    Timer second(loop(), [&] { order += '2'; });
    const TimePoint start = loop().now();
    third.start(at(start + 30ms));
    first.start(at(start + 5ms));
    second.start(at(start + 15ms));
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(order, "123");
    EXPECT_GE(loop().now() - start, 30ms);
}

TEST_P(LoopTest, TimerBelowAMillisecond) {
    const TimePoint start = loop().now();
    bool has_fired = false;
    Timer timer(loop(), [&] { has_fired = true; });
    timer.start(within(100us));
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_TRUE(has_fired);
    EXPECT_GE(loop().now() - start, 100us);
}

TEST_P(LoopTest, DeadlineInThePastFiresAtOnce) {
    bool has_fired = false;
    Timer timer(loop(), [&] { has_fired = true; });
    // Before the host started too.
    for (const TimePoint past : {loop().now() - 1s, TimePoint(-1h), TimePoint::min()}) {
        has_fired = false;
        timer.start(at(past));
        run_until([&] { return has_fired; });
    }
}

TEST(DeadlineTest, AFixedOneCountsFromOnePointOfTime) {
    constexpr TimePoint kNow(1h);
    EXPECT_EQ(within(5s).fixed(kNow).resolve_ns(0), std::chrono::nanoseconds(1h + 5s).count());
    EXPECT_EQ(at(kNow).fixed(kNow + 1s).resolve_ns(0), std::chrono::nanoseconds(1h).count());
    EXPECT_TRUE(kNoDeadline.fixed(kNow).is_never());
    EXPECT_GT(within(std::chrono::nanoseconds::max()).fixed(kNow).resolve_ns(0),
              std::chrono::nanoseconds(24h * 365 * 200).count());
}

TEST_P(LoopTest, WakeEndsAWaitThatHasNotBegun) {
    const TimePoint start = loop().now();
    loop().wake();
    ASSERT_TRUE(loop().run_once(within(20s)).has_value());
    EXPECT_LT(loop().now() - start, 10s);
}

TEST_P(LoopTest, PeriodicTimerKeepsItsBeat) {
    unsigned count = 0;
    Timer<std::function<void()>> timer(loop(), [&] {
        if (++count == 5) {
            timer.stop();
        }
    });
    const TimePoint start = loop().now();
    timer.start_every(2ms);
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(count, 5U);
    EXPECT_GE(loop().now() - start, 10ms);
    EXPECT_FALSE(timer.is_running());
}

TEST_P(LoopTest, StoppedTimerDoesNotFire) {
    Timer timer(loop(), [] { ADD_FAILURE(); });
    Timer other(loop(), [] {});
    timer.start(within(1ms));
    other.start(within(5ms));
    timer.stop();
    ASSERT_TRUE(loop().run().has_value());
}

TEST_P(LoopTest, TimerCanBeMovedBothWays) {
    std::string order;
    Timer a(loop(), [&] { order += 'a'; });
    Timer b(loop(), [&] { order += 'b'; });
    const TimePoint start = loop().now();
    a.start(at(start + 5ms));
    b.start(at(start + 200ms));
    a.start(at(start + 25ms));
    b.start(at(start + 10ms));
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(order, "ba");
}

TEST_P(LoopTest, TimerThatStopsAnotherDueAtTheSameTime) {
    unsigned fired = 0;
    std::optional<Timer<std::function<void()>>> one;
    std::optional<Timer<std::function<void()>>> two;
    one.emplace(loop(), [&] {
        ++fired;
        two->stop();
    });
    two.emplace(loop(), [&] {
        ++fired;
        one->stop();
    });
    const TimePoint when = loop().now() + 5ms;
    one->start(at(when));
    two->start(at(when));
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(fired, 1U);
}

TEST_P(LoopTest, TimerMayDestroyItselfWhenItFires) {
    auto timer = std::make_unique<std::optional<Timer<std::function<void()>>>>();
    bool has_fired = false;
    timer->emplace(loop(), [&] {
        has_fired = true;
        timer.reset();
    });
    (*timer)->start(within(1ms));
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_TRUE(has_fired);
}

TEST_P(LoopTest, TimerThatDoesNotKeepTheLoopAlive) {
    Timer background(loop(), [] {});
    background.set_keeps_alive(false);
    background.start(within(1h));
    EXPECT_TRUE(loop().run().has_value());
    background.stop();
}

TEST_P(LoopTest, RunUntilReturnsAtItsDeadline) {
    const TimePoint start = loop().now();
    ASSERT_TRUE(loop().run_until(within(10ms)).has_value());
    EXPECT_GE(loop().now() - start, 10ms);
}

TEST_P(LoopTest, WaitsWithoutSpinningBeforeADeadline) {
    Timer timer(loop(), [] {});
    timer.start(within(50ms));
    const std::uint64_t before = loop().statistics().wait_count;
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_LE(loop().statistics().wait_count - before, 10U);
}

TEST_P(LoopTest, StopEndsTheRunAfterItsIteration) {
    unsigned count = 0;
    Timer timer(loop(), [&] {
        ++count;
        loop().stop();
    });
    timer.start_every(1ms);
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(count, 1U);
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(count, 2U);
    timer.stop();
}

TEST_P(LoopTest, PostedThingsRunInOrder) {
    std::string order;
    for (const char letter : {'a', 'b', 'c'}) {
        loop().post([&order, letter] { order += letter; });
    }
    loop().post([&] { loop().post([&order] { order += 'd'; }); });
    run_until([&] { return order == "abcd"; });
}

TEST_P(LoopTest, PostFromManyThreads) {
    need_threads();
    if (IsSkipped()) return;
    constexpr unsigned kThreads = 4;
    constexpr unsigned kPosts = 2000;
    unsigned count = 0;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            for (unsigned k = 0; k < kPosts; ++k) {
                loop().post([&] { ++count; });
            }
        });
    }
    run_until([&] { return count == kThreads * kPosts; });
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_P(LoopTest, PostWakesASleepingLoop) {
    need_threads();
    if (IsSkipped()) return;
    // Back and forth: each round needs a wake-up on both sides.
    std::atomic<unsigned> asked{0};
    std::atomic<unsigned> answered{0};
    std::thread other([&] {
        for (unsigned i = 1; i <= 200; ++i) {
            loop().post([&] { answered.fetch_add(1); });
            while (answered.load() < i) {
                std::this_thread::yield();
            }
            asked.store(i);
        }
        loop().stop();
    });
    ASSERT_TRUE(loop().run_until(within(100s)).has_value());
    other.join();
    EXPECT_EQ(asked.load(), 200U);
}

TEST_P(LoopTest, StopFromAnotherThread) {
    need_threads();
    if (IsSkipped()) return;
    std::thread other([&] { loop().stop(); });
    ASSERT_TRUE(loop().run_until(within(10s)).has_value());
    other.join();
}

// The last thing that a thread does before it ends: the loop is still being woken when the run that
// it ends has returned, and goes as soon as the thread has.
TEST_P(LoopTest, GoesRightAfterItWasWokenFromAnotherThread) {
    need_threads();
    if (IsSkipped()) return;
    for (int round = 0; round < 50; ++round) {
        Result<Loop> brief = make_loop();
        ASSERT_TRUE(brief.has_value());
        unsigned count = 0;
        std::thread poster([&] {
            brief->post([&] { ++count; });
            brief->post([&] {
                ++count;
                brief->stop();
            });
            brief->wake();
        });
        std::thread stopper([&] { brief->stop(); });
        while (count < 2) {
            ASSERT_TRUE(brief->run_until(within(10s)).has_value());
        }
        poster.join();
        stopper.join();
    }
}

TEST_P(LoopTest, WhatWasPostedBeforeItGoesStillRuns) {
    need_threads();
    if (IsSkipped()) return;
    for (int round = 0; round < 20; ++round) {
        std::optional<Loop> brief = make_loop().value();
        ASSERT_TRUE(brief->run_once().has_value());
        unsigned count = 0;
        std::vector<std::thread> posters;
        for (int i = 0; i < 3; ++i) {
            posters.emplace_back([&] {
                for (int k = 0; k < 10; ++k) brief->post([&] { ++count; });
            });
        }
        for (std::thread& poster : posters) {
            poster.join();
        }
        brief.reset();
        EXPECT_EQ(count, 30U);
    }
}

TEST_P(LoopTest, StopFromManyThreadsEndsEveryRun) {
    need_threads();
    if (IsSkipped()) return;
    std::atomic<bool> is_over{false};
    std::vector<std::thread> stoppers;
    for (int i = 0; i < 3; ++i) {
        stoppers.emplace_back([&] {
            while (!is_over.load()) {
                loop().stop();
                std::this_thread::yield();
            }
        });
    }
    for (int run = 0; run < 300; ++run) {
        ASSERT_TRUE(loop().run_until(within(10s)).has_value());
    }
    is_over.store(true);
    for (std::thread& stopper : stoppers) {
        stopper.join();
    }
}

TEST_P(LoopTest, SignalsDuringAWaitDisturbNothing) {
    need_threads();
    if (IsSkipped()) return;
    struct sigaction action = {};
    struct sigaction before = {};
    action.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
    const itimerval often = {{0, 2'000}, {0, 2'000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive, within(50ms));
    const TimePoint start = loop().now();
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.data.error().code(), Errc::timed_out);
    EXPECT_GE(loop().now() - start, 50ms);
    const itimerval never = {};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
}

// Time passes between two runs too.
TEST_P(LoopTest, DeadlinesCountFromNowAfterAPause) {
    ASSERT_TRUE(loop().run_once().has_value());
    const TimePoint before = loop().now();
    let_pass(30ms);
    unsigned count = 0;
    Timer timer(loop(), [&] { ++count; });
    const TimePoint start = loop().now();
    EXPECT_GE(start - before, 30ms);
    timer.start(within(20ms));
    ASSERT_TRUE(loop().run_once(within(1ms)).has_value());
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(count, 1U);
    EXPECT_GE(loop().now() - start, 20ms);
}

TEST_P(LoopTest, EndsWhatIsPendingWhenItGoes) {
    Result<Loop> other = make_loop();
    ASSERT_TRUE(other.has_value());
    Watched<TimerOperation> timer;
    timer.start(*other, within(1h));
    other = make_loop();
    EXPECT_EQ(timer.completion_count, 1U);
    EXPECT_EQ(timer.error().code(), Errc::cancelled);
}

// A session that ends when its receive does, as many do.
TEST_P(LoopTest, WhatACompletionClosesWhileTheLoopGoesIsClosed) {
    Pair pair = connect_pair();
    const Descriptor peer = pair.client.release();
    Result<Loop> other = make_loop();
    ASSERT_TRUE(other.has_value());
    Stream stream = Stream::adopt(*other, pair.server.release()).value();
    Watched<CloseOperation> close;
    Watched<SendOperation> send;
    Watched<ReceiveLentOperation> receive([&] {
        stream.send(send, bytes_of("too late"));
        stream.close(close);
    });
    stream.receive(receive);
    ASSERT_TRUE(other->run_once(within(0ns)).has_value());
    other = make_loop();
    EXPECT_EQ(receive.completion_count, 1U);
    EXPECT_EQ(receive.data.error().code(), Errc::cancelled);
    EXPECT_TRUE(send.has_failed());
    EXPECT_EQ(close.completion_count, 1U);
    EXPECT_FALSE(close.has_failed());
    std::byte byte{};
    EXPECT_EQ(internal::calls().recv(peer.get(), &byte, 1, MSG_DONTWAIT), 0) << "not closed";
}

TEST_P(LoopTest, SpinningLoopStillSleepsInTheEnd) {
    Result<Loop> spinning = make_loop({.spin = 200us});
    ASSERT_TRUE(spinning.has_value());
    unsigned count = 0;
    Timer timer(*spinning, [&] { ++count; });
    timer.start(within(20ms));
    ASSERT_TRUE(spinning->run().has_value());
    EXPECT_EQ(count, 1U);
}

TEST_P(LoopTest, SpinningLoopStaysAwakeAfterAnEvent) {
    if (is_simulated()) {
        GTEST_SKIP() << "time stands still for who does not wait";
    }
    Result<Loop> spinning = make_loop({.spin = 1h});
    ASSERT_TRUE(spinning.has_value());
    bool has_fired = false;
    Timer timer(*spinning, [&] { has_fired = true; });
    timer.start(within(1ms));
    while (!has_fired) {
        ASSERT_TRUE(spinning->run_once(within(10s)).has_value());
    }
    const TimePoint start = spinning->now();
    const Result<bool> has_run = spinning->run_once(within(20s));
    ASSERT_TRUE(has_run.has_value());
    EXPECT_FALSE(*has_run);
    EXPECT_LT(spinning->now() - start, 10s);
}

TEST_P(LoopTest, SpinningForANegativeTimeIsRefused) {
    const Result<Loop> refused = make_loop({.spin = -1ns});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Errc::invalid_argument);
    EXPECT_NE(refused.error().message().find("spin"), std::string::npos);
}

// A program that goes on whenever it can go on at once would keep all others waiting.
TEST_P(LoopTest, WhatIsDoneAtOnceIsDoneOnlySoOften) {
    constexpr unsigned kMany = 1000;
    auto [client, server] = connect_pair();
    Watched<SendOperation> send;
    send.always_completes = false;
    unsigned done_count = 0;
    while (done_count < kMany && client.send(send, bytes_of("x")) == Start::done) {
        ++done_count;
    }
    EXPECT_LT(done_count, kMany);
    run_until([&] { return !send.is_pending(); });
    EXPECT_EQ(receive_exactly(server, done_count + 1).size(), done_count + 1);
}

using LoopDeathTest = LoopTest;

TEST_P(LoopDeathTest, UseFromAnotherThreadIsRefused) {
    need_threads();
    if (IsSkipped()) return;
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            static_cast<void>(loop().run_once());
            std::thread([&] { static_cast<void>(loop().run_once()); }).join();
        },
        "Loop::post");
    auto [client, server] = connect_pair();
    Timer timer(loop(), [] {});
    Event event(loop());
    Watched<ReceiveLentOperation> receive;
    Watched<WaitOperation> wait;
    server.receive(receive);
    event.wait(wait);
    const std::array<std::function<void()>, 6> uses = {
        [&] { timer.start(within(1s)); },
        [&] { receive.cancel(); },
        [&] { event.set(); },
        [&] { client.close(); },
        [&] { static_cast<void>(client.write(bytes_of("x"))); },
        [&] {
            Watched<ReceiveLentOperation> other;
            client.receive(other);
        },
    };
    for (const auto& use : uses) {
        EXPECT_DEATH(std::thread(use).join(), "Loop::post");
    }
    receive.cancel();
    event.set();
    run_until([&] { return !receive.is_pending() && !wait.is_pending(); });
}

TEST_P(LoopDeathTest, PostingTwiceIsRefused) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Watched<PostOperation> posted;
    loop().post(posted);
    EXPECT_DEATH(loop().post(posted), "posted twice");
    run_until([&] { return posted.completion_count == 1; });
}

TEST_P(LoopDeathTest, SubmittingTwiceIsRefused) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    EXPECT_DEATH(
        {
            server.receive(receive);
            server.receive(receive);
        },
        "submitted twice");
}

class LateLoopTest : public EngineTest {
protected:
    /// How many of 600 receives fail that have their bytes when the loop, which was kept from
    /// running, finds that their deadline has passed too. None when the bytes were not there by
    /// then.
    std::optional<long> count_late(std::chrono::milliseconds time) {
        std::vector<Pair> pairs;
        std::vector<std::unique_ptr<Watched<ReceiveLentOperation>>> receives;
        for (unsigned i = 0; i < 600; ++i) {
            pairs.push_back(connect_pair());
        }
        run_ready();
        const TimePoint deadline = loop().now() + time;
        for (Pair& pair : pairs) {
            receives.push_back(std::make_unique<Watched<ReceiveLentOperation>>());
            pair.server.receive(*receives.back(), at(deadline));
        }
        run_ready();
        for (Pair& pair : pairs) {
            EXPECT_TRUE(pair.client.write(bytes_of("in time")).has_value());
        }
        EXPECT_TRUE(loop().run_once().has_value());
        const TimePoint sent = loop().now();
        let_pass_until(deadline + 5ms);
        run_until([&] {
            return std::ranges::all_of(receives,
                                       [](auto& one) { return one->completion_count == 1; });
        });
        const auto late =
            std::ranges::count_if(receives, [](auto& one) { return one->has_failed(); });
        for (auto& receive : receives) {
            receive->data.give_back();
        }
        return sent < deadline ? std::optional(late) : std::nullopt;
    }
};

// More results than one wait brings.
TEST_P(LateLoopTest, ResultsThatAreThereWinOverTheirDeadlinesHoweverMany) {
    std::optional<long> late;
    for (auto time = 300ms; !late && time < 1min; time *= 2) {
        late = count_late(time);
    }
    EXPECT_EQ(late, 0);
}

BERTH_OVER_EVERY_ENGINE_OF(LoopTest);
BERTH_OVER_EVERY_ENGINE_OF(LateLoopTest);
BERTH_OVER_EVERY_ENGINE_OF(LoopDeathTest);

}  // namespace
}  // namespace berth::test
