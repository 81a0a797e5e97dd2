// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/allocation_count.h"
#include "tests/task/task_test.h"

#include <berth/event.h>
#include <berth/scope.h>
#include <berth/stream.h>
#include <berth/timer.h>
#include <berth/when.h>

#include <array>
#include <cstdint>
#include <tuple>

namespace berth::test {
namespace {

class TaskAllocationTest : public EngineTest {
protected:
    void SetUp() override {
        if (!bench::counts_allocations()) {
            GTEST_SKIP() << "a sanitizer counts allocations itself";
        }
        if (is_simulated()) {
            GTEST_SKIP() << "a simulated kernel allocates in the same process";
        }
        EngineTest::SetUp();
    }

    /// How many allocations `run()` makes once it has run a few times.
    template <class Run>
    static std::uint64_t allocations_of(Run run) {
        for (int i = 0; i < 3; ++i) {
            run();
        }
        std::uint64_t count = 0;
        bench::count_allocations_into(&count);
        run();
        bench::count_allocations_into(nullptr);
        return count;
    }
};

Task<int> child(Loop& loop, int value) {
    static_cast<void>(co_await yield(loop));
    co_return value;
}

Task<int> many_children(Loop& loop) {
    int sum = 0;
    for (int i = 0; i < 100; ++i) {
        sum += co_await child(loop, 1);
        sum += std::get<1>(co_await when_all(child(loop, 1), child(loop, 2)));
        sum += std::get<0>((co_await when_any(child(loop, 1), child(loop, 2))).values);
        sum += *co_await with_timeout(loop, within(1h), child(loop, 1));
        static_cast<void>(co_await sleep(loop, within(0s)));
    }
    co_return sum;
}

TEST_P(TaskAllocationTest, TasksAllocateNothingInSteadyState) {
    EXPECT_EQ(
        allocations_of([&] { EXPECT_EQ(block_on(loop(), many_children(loop())).value(), 500); }),
        0U);
}

Task<void> use(Event& event, Semaphore& semaphore) {
    const Result<void> acquired = co_await semaphore.acquire();
    if (acquired) {
        static_cast<void>(co_await event.wait());
        semaphore.release();
    }
}

TEST_P(TaskAllocationTest, SpawningAndJoiningAllocatesNothingInSteadyState) {
    Event event(loop());
    Semaphore semaphore(loop(), 2);
    EXPECT_EQ(allocations_of([&] {
                  Scope scope;
                  for (int i = 0; i < 20; ++i) {
                      scope.spawn(use(event, semaphore));
                  }
                  scope.cancel();
                  EXPECT_TRUE(block_on(loop(), scope.join()));
              }),
              0U);
}

TEST_P(TaskAllocationTest, AnEchoAllocatesNothingInSteadyState) {
    auto [near, far] = connect_pair();
    auto echo = [](Stream& peer) -> Task<void> {
        while (Lent data = co_await peer.receive()) {
            if (!co_await peer.send(std::move(data))) {
                break;
            }
        }
    };
    auto ask = [](Stream& peer) -> Task<int> {
        std::array<std::byte, 64> message{};
        int answers = 0;
        for (int i = 0; i < 100; ++i) {
            static_cast<void>(co_await peer.send(message));
            answers += (co_await peer.receive()).size() == message.size() ? 1 : 0;
        }
        co_return answers;
    };
    Scope scope;
    scope.spawn(echo(far));
    EXPECT_EQ(allocations_of([&] { EXPECT_EQ(block_on(loop(), ask(near)).value(), 100); }), 0U);
    scope.cancel();
    EXPECT_TRUE(block_on(loop(), scope.join()));
}

BERTH_OVER_EVERY_ENGINE_OF(TaskAllocationTest);

}  // namespace
}  // namespace berth::test
