// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/io_uring_engine.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <sys/socket.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <thread>

namespace berth::internal {
namespace {

using ReceiveLent = Counted<ReceiveLentOperation>;
using Receive = Counted<ReceiveOperation>;
using Send = Counted<SendOperation>;
using Poll = Counted<PollOperation>;

IoUringOptions tiny_rings() {
    IoUringOptions options;
    options.ring = {.submissions = 4, .completions = 8};
    return options;
}

TEST(IoUringEngine, WaitsUntilTheDeadlineAndNoLonger) {
    for (const bool without_absolute_timer : {false, true}) {
        IoUringOptions options;
        options.without_absolute_timer = without_absolute_timer;
        Driver driver(options);
        const std::uint64_t deadline_ns = monotonic_now_ns() + 20'000'000;
        EXPECT_EQ(driver.engine().wait(deadline_ns), 0);
        EXPECT_GE(monotonic_now_ns(), deadline_ns);
        EXPECT_EQ(driver.engine().wait(1), 0);  // long past
        EXPECT_EQ(driver.engine().wait(0), 0);
    }
}

TEST(IoUringEngine, DoesNotSleepWhileSomethingIsReady) {
    Driver driver;
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver);
    driver.submit(receive, slot);
    driver.cancel(receive);
    EXPECT_EQ(driver.engine().wait(kNever), 0);
    EXPECT_EQ(driver.run_ready(), 1);
}

TEST(IoUringEngine, MakesOneSystemCallForEachTurn) {
    Driver driver;
    std::vector<SocketPair> pairs;
    std::deque<Receive> receives;
    std::array<std::byte, 16> buffer{};
    for (int i = 0; i < 10; ++i) {
        pairs.push_back(unix_pair());
        const SlotHandle slot = driver.attach(pairs.back().near.get(), DescriptorKind::stream);
        receives.emplace_back(driver).buffer = buffer;
        driver.submit(receives.back(), slot);
    }
    const auto before = driver.statistics();
    driver.turn();
    const auto after = driver.statistics();
    EXPECT_EQ(after.wait_count, before.wait_count + 1);
    EXPECT_EQ(after.submission_count, before.submission_count + 10);
    EXPECT_EQ(after.socket_count, 10U);
    EXPECT_EQ(after.interest_count, 0U);
}

TEST(IoUringEngine, AFullSubmissionQueueIsNoError) {
    Driver driver(tiny_rings());
    constexpr std::size_t kCount = 500;
    std::vector<SocketPair> pairs;
    std::deque<Poll> polls;
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(unix_pair());
        const SlotHandle slot = driver.attach(pairs[i].near.get(), DescriptorKind::stream);
        polls.emplace_back(driver).events = POLLIN;
        EXPECT_EQ(driver.submit(polls[i], slot), Start::pending);
    }
    for (const SocketPair& pair : pairs) {
        write_all(pair.far.get(), bytes_of("x"));
    }
    // Far more completions than their queue has room for.
    ASSERT_TRUE(driver.run_until([&] {
        return std::ranges::all_of(polls, [](const auto& poll) { return poll.has_completed(); });
    }));
    for (const Poll& poll : polls) {
        EXPECT_EQ(poll.completion_count, 1);
        EXPECT_EQ(poll.result, POLLIN);
    }
}

// Streams whose receives and silent sends meet a completion queue that is always too small.
TEST(IoUringEngine, AnOverflowOfCompletionsLosesAndReordersNothing) {
    Driver driver(tiny_rings());
    constexpr std::size_t kCount = 50;
    constexpr std::size_t kBytes = 20'000;
    std::vector<SocketPair> pairs;
    std::vector<SlotHandle> slots;
    std::deque<ReceiveLent> receives;
    std::deque<Send> sends;
    std::vector<std::size_t> received(kCount);
    std::vector<std::size_t> sent(kCount);
    std::vector<std::vector<std::byte>> data(kCount);
    const auto is_done = [&] {
        return std::ranges::all_of(received, [](std::size_t size) { return size == kBytes; });
    };
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(unix_pair());
        set_send_buffer(pairs[i].near.get(), 4096);
        slots.push_back(driver.attach(pairs[i].near.get(), DescriptorKind::stream));
        slots.push_back(driver.attach(pairs[i].far.get(), DescriptorKind::stream));
        receives.emplace_back(driver).then = [&, i](ReceiveLent& done) {
            ASSERT_GT(done.result, 0);
            ASSERT_TRUE(is_pattern(done.data.bytes(), received[i]));
            received[i] += done.data.size();
            done.data.give_back();
            if (received[i] < kBytes) {
                driver.submit(done, slots[2 * i + 1]);
            }
        };
        sends.emplace_back(driver).then = [&, i](Send& done) {
            ASSERT_EQ(done.result, 100);
            sent[i] += 100;
            if (sent[i] < kBytes) {
                data[i] = pattern(sent[i], 100);
                done.set(data[i]);
                done.sent = 0;
                driver.submit(done, slots[2 * i]);
            }
        };
        data[i] = pattern(0, 100);
        sends[i].set(data[i]);
        driver.submit(receives[i], slots[2 * i + 1]);
        driver.submit(sends[i], slots[2 * i]);
    }
    EXPECT_TRUE(driver.run_until(is_done));
}

TEST(IoUringEngine, ThousandsOfSocketsSpeak) {
    Driver driver;
    constexpr std::size_t kCount = 4000;
    std::vector<SocketPair> pairs;
    std::vector<SlotHandle> slots;
    std::deque<ReceiveLent> receives;
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(unix_pair());
        slots.push_back(driver.attach(pairs[i].near.get(), DescriptorKind::stream));
        driver.submit(receives.emplace_back(driver), slots[i]);
    }
    driver.turn();
    for (std::size_t i = 0; i < kCount; ++i) {
        write_all(pairs[i].far.get(), bytes_of(std::to_string(i)));
    }
    ASSERT_TRUE(driver.run_until([&] {
        return std::ranges::all_of(receives, [](const auto& one) { return one.has_completed(); });
    }));
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(text_of(receives[i].data.bytes()), std::to_string(i));
        receives[i].data.give_back();
    }
}

// An echo server as the owning writes of a stream do it: nobody waits for a send.
TEST(IoUringEngine, AnEchoOver100ConnectionsNeedsFewSystemCalls) {
    Driver driver;
    constexpr std::size_t kCount = 100;
    constexpr int kRounds = 50;
    struct Echo {
        explicit Echo(Driver& driver) : receive(driver), send(driver) {}
        SlotHandle slot;
        ReceiveLent receive;
        Send send;
        Lent data;
    };
    std::vector<SocketPair> pairs;
    std::deque<Echo> echoes;
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(tcp_pair());
        Echo& echo = echoes.emplace_back(driver);
        echo.slot = driver.attach(pairs[i].near.get(), DescriptorKind::stream);
        echo.send.keeps_alive = false;
        echo.receive.then = [&](ReceiveLent& done) {
            ASSERT_GT(done.result, 0);
            echo.data = std::move(done.data);
            echo.send.set(echo.data.bytes());
            echo.send.sent = 0;
            driver.submit(echo.send, echo.slot);
            driver.submit(done, echo.slot);
        };
        echo.send.then = [&](Send&) { echo.data.give_back(); };
        driver.submit(echo.receive, echo.slot);
    }
    driver.turn();
    const auto before = driver.statistics();
    for (int round = 0; round < kRounds; ++round) {
        for (const SocketPair& pair : pairs) {
            write_all(pair.far.get(), bytes_of("0123456789abcdef"));
        }
        ASSERT_TRUE(driver.run_until([&] {
            return std::ranges::all_of(echoes, [round](const Echo& echo) {
                return echo.receive.completion_count == round + 1;
            });
        }));
        driver.turn();
        for (const SocketPair& pair : pairs) {
            EXPECT_EQ(read_all(pair.far.get(), 16).size(), 16U);
        }
    }
    const double enters = static_cast<double>(driver.statistics().wait_count - before.wait_count);
    EXPECT_LE(enters / (kCount * kRounds), 0.3);
    for (Echo& echo : echoes) {
        echo.receive.then = nullptr;
        driver.cancel(echo.receive);
    }
    driver.turn();
}

// A foreign loop that knows the descriptor only.
TEST(IoUringEngine, ItsDescriptorTellsWhenThereIsSomethingToDo) {
    Driver driver;
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver.attach(pair.near.get(), DescriptorKind::stream);
    const int fd = driver.engine().descriptor().value();
    const auto is_readable = [fd](int timeout_ms) {
        pollfd entry{fd, POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    };
    driver.turn();
    EXPECT_FALSE(is_readable(0));
    ReceiveLent receive(driver);
    driver.submit(receive, slot);
    EXPECT_FALSE(is_readable(0));
    std::thread writer([&pair] { write_all(pair.far.get(), bytes_of("x")); });
    EXPECT_TRUE(is_readable(10'000));
    writer.join();
    driver.turn();
    EXPECT_EQ(receive.result, 1);
    receive.data.give_back();
    // A send shows too, and so does a wake-up.
    Send send(driver);
    send.set(bytes_of("hello"));
    driver.submit(send, slot);
    EXPECT_TRUE(is_readable(10'000));
    driver.turn();
    EXPECT_EQ(send.result, 5);
    EXPECT_FALSE(is_readable(0));
    driver.engine().wake();
    EXPECT_TRUE(is_readable(10'000));
    driver.turn();
    // What ends without the kernel must be seen as well.
    driver.submit(receive, slot);
    driver.cancel(receive);
    EXPECT_TRUE(is_readable(10'000));
    driver.turn();
    EXPECT_EQ(receive.result, -ECANCELED);
}

TEST(IoUringEngine, HasTheKindAndTheSizesThatWerePromised) {
    Driver driver;
    EXPECT_EQ(driver.engine().kind(), EngineKind::io_uring);
    EXPECT_LE(sizeof(RingSlot), 128U);
}

}  // namespace
}  // namespace berth::internal
