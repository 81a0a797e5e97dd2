// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/waker.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <atomic>
#include <thread>

namespace berth::internal {
namespace {

class IoUringWaker : public testing::TestWithParam<bool> {
protected:
    static IoUringOptions options() {
        IoUringOptions options;
        options.without_message_wake = GetParam();
        return options;
    }

    Driver driver_{options()};
};

TEST_P(IoUringWaker, WakesASleepingEngine) {
    driver_.turn();
    for (int i = 0; i < 100; ++i) {
        std::thread other([this] { driver_.engine().wake(); });
        EXPECT_EQ(driver_.engine().wait(kNever), 0);
        other.join();
    }
}

TEST_P(IoUringWaker, WakesTheNextWait) {
    driver_.engine().wake();  // the ring has not started
    EXPECT_EQ(driver_.engine().wait(kNever), 0);
    driver_.turn();
    driver_.engine().wake();
    EXPECT_EQ(driver_.engine().wait(kNever), 0);
}

TEST_P(IoUringWaker, MakesOneSystemCallForManyWakeUps) {
    driver_.turn();
    const auto before = driver_.statistics().wake_count;
    for (int i = 0; i < 10; ++i) {
        driver_.engine().wake();
    }
    EXPECT_EQ(driver_.statistics().wake_count, before + 1);
    EXPECT_EQ(driver_.engine().wait(kNever), 0);
    driver_.engine().wake();
    EXPECT_EQ(driver_.statistics().wake_count, before + 2);
    EXPECT_EQ(driver_.engine().wait(kNever), 0);
}

// What one thread writes before it wakes the other, the other sees when it is awake.
TEST_P(IoUringWaker, NoWakeUpIsLost) {
    constexpr int kCount = 20'000;
    std::atomic<int> posted{0};
    std::thread other([&] {
        for (int i = 0; i < kCount; ++i) {
            posted.fetch_add(1);
            driver_.engine().wake();
        }
    });
    while (posted.load() < kCount) {
        ASSERT_EQ(driver_.engine().wait(kNever), 0);
    }
    other.join();
}

TEST_P(IoUringWaker, AnEngineMadeOnOneThreadRunsOnAnother) {
    std::atomic<bool> is_told{false};
    std::thread runner([this, &is_told] {
        while (!is_told.load()) {
            EXPECT_EQ(driver_.engine().wait(kNever), 0);
        }
        driver_.engine().shut_down();
    });
    is_told.store(true);
    driver_.engine().wake();
    runner.join();
}

INSTANTIATE_TEST_SUITE_P(Kinds, IoUringWaker, testing::Values(false, true),
                         [](const auto& kind) { return kind.param ? "eventfd" : "message"; });

}  // namespace
}  // namespace berth::internal
