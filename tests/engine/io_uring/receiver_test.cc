// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/receiver.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <fcntl.h>
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

class IoUringReceiver : public testing::Test {
protected:
    Driver driver_;
};

TEST_F(IoUringReceiver, LendsWhatCame) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    EXPECT_EQ(driver_.submit(receive, slot), Start::pending);
    EXPECT_EQ(driver_.turn(), 0);
    write_all(pair.far.get(), bytes_of("hello"));
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(receive.result, 5);
    EXPECT_EQ(text_of(receive.data.bytes()), "hello");
}

TEST_F(IoUringReceiver, WhatCameBeforeIsThereAtOnce) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent first(driver_);
    driver_.submit(first, slot);
    write_all(pair.far.get(), bytes_of("one"));
    ASSERT_TRUE(driver_.run_until(first));
    write_all(pair.far.get(), bytes_of("two"));
    driver_.turn();
    ReceiveLent second(driver_);
    EXPECT_EQ(driver_.submit(second, slot), Start::done);
    EXPECT_EQ(text_of(second.data.bytes()), "two");
}

TEST_F(IoUringReceiver, DataComesBeforeTheEndOfTheStream) {
    for (const bool is_tcp : {false, true}) {
        SocketPair pair = is_tcp ? tcp_pair() : unix_pair();
        const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
        ReceiveLent receive(driver_);
        driver_.submit(receive, slot);
        driver_.turn();
        write_all(pair.far.get(), bytes_of("last words"));
        pair.far.reset();
        ASSERT_TRUE(driver_.run_until(receive));
        EXPECT_EQ(text_of(receive.data.bytes()), "last words");
        for (int i = 0; i < 3; ++i) {
            ReceiveLent end(driver_);
            driver_.submit(end, slot);
            ASSERT_TRUE(driver_.run_until(end));
            EXPECT_EQ(end.result, 0);
            EXPECT_TRUE(end.data.is_end());
        }
        driver_.detach(slot, Detach::keep);
    }
}

TEST_F(IoUringReceiver, DataComesBeforeAReset) {
    SocketPair pair = tcp_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    write_all(pair.far.get(), bytes_of("before"));
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(text_of(receive.data.bytes()), "before");
    write_all(pair.far.get(), bytes_of("more"));
    driver_.turn();
    const linger hard{1, 0};
    ::setsockopt(pair.far.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    pair.far.reset();
    driver_.turn();
    ReceiveLent more(driver_);
    EXPECT_EQ(driver_.submit(more, slot), Start::done);
    EXPECT_EQ(text_of(more.data.bytes()), "more");
    ReceiveLent end(driver_);
    driver_.submit(end, slot);
    ASSERT_TRUE(driver_.run_until(end));
    EXPECT_EQ(end.result, -ECONNRESET);
    EXPECT_EQ(end.data.system_errno(), ECONNRESET);
}

TEST_F(IoUringReceiver, ReceivesIntoTheCallersMemory) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 4> buffer{};
    Receive receive(driver_);
    receive.buffer = buffer;
    driver_.submit(receive, slot);
    write_all(pair.far.get(), bytes_of("abcdef"));
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(receive.result, 4);
    EXPECT_EQ(text_of(buffer), "abcd");
    driver_.submit(receive, slot);
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 2; }));
    EXPECT_EQ(receive.result, 2);
    // The last one was short, so this one waits first.
    driver_.submit(receive, slot);
    driver_.turn();
    write_all(pair.far.get(), bytes_of("g"));
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 3; }));
    EXPECT_EQ(receive.result, 1);
}

TEST_F(IoUringReceiver, AnEmptyBufferReceivesNothing) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Receive receive(driver_);
    EXPECT_EQ(driver_.submit(receive, slot), Start::done);
    EXPECT_EQ(receive.result, 0);
}

TEST_F(IoUringReceiver, LentAndCopiedBytesKeepTheirOrder) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent lent(driver_);
    driver_.submit(lent, slot);
    driver_.turn();
    write_all(pair.far.get(), bytes_of("one"));
    ASSERT_TRUE(driver_.run_until(lent));
    write_all(pair.far.get(), bytes_of("twothree"));
    driver_.turn();
    std::array<std::byte, 3> buffer{};
    Receive copied(driver_);
    copied.buffer = buffer;
    EXPECT_EQ(driver_.submit(copied, slot), Start::done);
    EXPECT_EQ(text_of(buffer), "two");
    driver_.submit(lent, slot);
    EXPECT_EQ(text_of(lent.data.bytes()), "three");
    // Nothing is there: the receive that goes on by itself serves this one too.
    driver_.submit(copied, slot);
    driver_.turn();
    write_all(pair.far.get(), bytes_of("fou"));
    ASSERT_TRUE(driver_.run_until([&] { return copied.completion_count == 2; }));
    EXPECT_EQ(text_of(buffer), "fou");
}

TEST_F(IoUringReceiver, SeveralWaitInTheirOrder) {
    const SocketPair pair = unix_pair(SOCK_SEQPACKET);
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::datagram);
    std::array<std::byte, 16> buffer{};
    ReceiveLent first(driver_);
    Receive second(driver_);
    ReceiveLent third(driver_);
    second.buffer = buffer;
    driver_.submit(first, slot);
    driver_.submit(second, slot);
    driver_.submit(third, slot);
    driver_.turn();
    for (const char* text : {"1", "22", "333"}) {
        write_all(pair.far.get(), bytes_of(text));
    }
    ASSERT_TRUE(driver_.run_until(third));
    EXPECT_EQ(first.result, 1);
    EXPECT_EQ(second.result, 2);
    EXPECT_EQ(third.result, 3);
}

TEST_F(IoUringReceiver, ALentBufferCanBeKeptWhileMoreComes) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::vector<Lent> kept;
    for (int i = 0; i < 1000; ++i) {
        ReceiveLent receive(driver_);
        driver_.submit(receive, slot);
        write_all(pair.far.get(), bytes_of(std::to_string(i)));
        ASSERT_TRUE(driver_.run_until(receive));
        kept.push_back(std::move(receive.data));
    }
    for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(text_of(kept[static_cast<std::size_t>(i)].bytes()), std::to_string(i));
    }
}

TEST_F(IoUringReceiver, CancellingAWaitForLentBytesCostsNoSystemCallAndLosesNothing) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    driver_.turn();
    const auto before = driver_.statistics();
    driver_.cancel(receive, -ETIMEDOUT);
    EXPECT_EQ(driver_.run_ready(), 1);
    EXPECT_EQ(receive.result, -ETIMEDOUT);
    EXPECT_EQ(receive.data.system_errno(), ETIMEDOUT);
    EXPECT_EQ(driver_.statistics().wait_count, before.wait_count);
    write_all(pair.far.get(), bytes_of("kept"));
    driver_.turn();
    driver_.submit(receive, slot);
    EXPECT_EQ(text_of(receive.data.bytes()), "kept");
}

TEST_F(IoUringReceiver, ACancelledReceiveHasConsumedNothing) {
    const SocketPair pair = tcp_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 16> buffer{};
    for (int i = 0; i < 100; ++i) {
        Receive receive(driver_);
        receive.buffer = buffer;
        driver_.submit(receive, slot);
        driver_.turn();
        driver_.cancel(receive);
        // The bytes may come before the kernel hears of the cancellation, or after.
        write_all(pair.far.get(), bytes_of("x"));
        ASSERT_TRUE(driver_.run_until(receive));
        if (receive.result == 1) {
            continue;
        }
        EXPECT_EQ(receive.result, -ECANCELED);
        driver_.submit(receive, slot);
        ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 2; }));
        EXPECT_EQ(receive.result, 1);
    }
    EXPECT_EQ(buffer[0], std::byte{'x'});
}

TEST_F(IoUringReceiver, CancelInputEndsAllReadersAndPolls) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 16> buffer{};
    Receive first(driver_);
    first.buffer = buffer;
    ReceiveLent second(driver_);
    Counted<PollOperation> poll(driver_);
    poll.events = POLLIN;
    driver_.submit(first, slot);
    driver_.submit(second, slot);
    driver_.submit(poll, slot);
    driver_.turn();
    driver_.engine().cancel_input(slot);
    ASSERT_TRUE(driver_.run_until(
        [&] { return first.has_completed() && second.has_completed() && poll.has_completed(); }));
    EXPECT_EQ(first.result, -ECANCELED);
    EXPECT_EQ(second.result, -ECANCELED);
    EXPECT_EQ(poll.result, -ECANCELED);
}

TEST_F(IoUringReceiver, UnconsumedBytesAreBounded) {
    const SocketPair pair = unix_pair();
    ASSERT_EQ(::fcntl(pair.far.get(), F_SETFL, O_NONBLOCK), 0);
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    std::size_t written = 0;
    for (int i = 0; i < 20'000; ++i) {
        const auto message = pattern(written, 100);
        const ssize_t count = ::send(pair.far.get(), message.data(), 100, MSG_NOSIGNAL);
        if (count < 0) {
            ASSERT_EQ(errno, EAGAIN);
            break;
        }
        written += static_cast<std::size_t>(count);
        driver_.turn();
    }
    // One turn may bring 32 more than the limit.
    EXPECT_LE(driver_.core().slots.at(slot.index).received.count, 100U);
    std::size_t read = 0;
    for (;;) {
        if (receive.stage == OperationStage::idle) {
            ASSERT_TRUE(is_pattern(receive.data.bytes(), read));
            read += receive.data.size();
            if (read == written) {
                break;
            }
            driver_.submit(receive, slot);
        } else {
            driver_.turn_waiting();
        }
    }
}

TEST_F(IoUringReceiver, MuchIsReadByHandAndLittleIntoBuffersAgain) {
    constexpr std::size_t kMuch = 8 << 20;
    const SocketPair pair = tcp_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    RingSlot& state = driver_.core().slots.at(slot.index);
    std::size_t offset = 0;
    std::size_t largest = 0;
    ReceiveLent receive(driver_);
    const auto receive_all = [&](std::size_t size) {
        for (const std::size_t end = offset + size; offset < end;) {
            driver_.submit(receive, slot);
            ASSERT_TRUE(driver_.run_until([&] { return !receive.is_pending(); }));
            ASSERT_TRUE(is_pattern(receive.data.bytes(), offset));
            offset += receive.data.size();
            largest = std::max(largest, receive.data.size());
        }
    };
    std::thread writer([&pair] { write_all(pair.far.get(), pattern(0, kMuch)); });
    receive_all(kMuch);
    writer.join();
    EXPECT_EQ(largest, 64U * 1024);
    EXPECT_TRUE(state.prefers_large);
    for (int i = 0; i < 10; ++i) {
        write_all(pair.far.get(), pattern(offset, 10));
        receive_all(10);
    }
    EXPECT_FALSE(state.prefers_large);
    driver_.turn();
    driver_.submit(receive, slot);
    driver_.turn();
    EXPECT_TRUE(state.is_multishot);
    receive.data.give_back();
}

/// A stream that is read by hand, with something in it.
struct Bulk {
    explicit Bulk(Driver& driver)
        : pair(unix_pair()), slot(driver.attach(pair.near.get(), DescriptorKind::stream)) {
        driver.core().slots.at(slot.index).prefers_large = true;
        driver.core().slots.at(slot.index).is_likely_empty = false;
        write_all(pair.far.get(), bytes_of("bulk"));
    }

    SocketPair pair;
    SlotHandle slot;
};

TEST_F(IoUringReceiver, TheFirstReceiveOfAStreamShowsHowMuchItMoves) {
    const SocketPair little = unix_pair();
    const SocketPair much = unix_pair();
    const SlotHandle of_little = driver_.engine().attach(little.near.get(), DescriptorKind::stream);
    const SlotHandle of_much = driver_.engine().attach(much.near.get(), DescriptorKind::stream);
    ReceiveLent first(driver_);
    ReceiveLent second(driver_);
    driver_.submit(first, of_little);
    driver_.submit(second, of_much);
    EXPECT_EQ(driver_.turn(), 0);
    write_all(little.far.get(), pattern(0, 100));
    write_all(much.far.get(), pattern(0, 20'000));
    ASSERT_TRUE(driver_.run_until(first));
    ASSERT_TRUE(driver_.run_until(second));
    EXPECT_EQ(first.result, 100);
    EXPECT_EQ(second.result, 20'000);
    EXPECT_FALSE(driver_.core().slots.at(of_little.index).is_bulk());
    EXPECT_TRUE(driver_.core().slots.at(of_much.index).is_bulk());
    EXPECT_FALSE(driver_.core().buffers.group(BufferKind::small).is_open());
}

TEST_F(IoUringReceiver, ByHandAfterWhatIsToBeSent) {
    const Bulk bulk(driver_);
    const SocketPair other = unix_pair();
    const SlotHandle other_slot = driver_.attach(other.near.get(), DescriptorKind::stream);
    Counted<SendOperation> send(driver_);
    send.set(bytes_of("before"));
    driver_.submit(send, other_slot);
    ReceiveLent receive(driver_);
    receive.always_completes = true;
    EXPECT_EQ(driver_.submit(receive, bulk.slot), Start::pending);
    EXPECT_EQ(driver_.run_ready(), 0);
    EXPECT_EQ(driver_.turn_waiting(), 2);
    EXPECT_EQ(text_of(receive.data.bytes()), "bulk");
    EXPECT_EQ(text_of(read_all(other.far.get(), 6)), "before");
}

TEST_F(IoUringReceiver, ByHandInTheirOrder) {
    const Bulk bulk(driver_);
    ReceiveLent first(driver_);
    first.always_completes = true;
    std::array<std::byte, 2> buffer{};
    Receive second(driver_);
    second.buffer = buffer;
    driver_.submit(first, bulk.slot);
    driver_.submit(second, bulk.slot);
    EXPECT_EQ(driver_.run_ready(), 1);
    EXPECT_EQ(text_of(first.data.bytes()), "bulk");
    write_all(bulk.pair.far.get(), bytes_of("go"));
    ASSERT_TRUE(driver_.run_until(second));
    EXPECT_EQ(text_of(buffer), "go");
}

TEST_F(IoUringReceiver, ByHandWaitsWhenThereIsNothing) {
    const Bulk bulk(driver_);
    ReceiveLent receive(driver_);
    EXPECT_EQ(driver_.submit(receive, bulk.slot), Start::done);
    receive.data.give_back();
    EXPECT_EQ(driver_.submit(receive, bulk.slot), Start::pending);
    driver_.turn();
    EXPECT_EQ(receive.completion_count, 1);
    driver_.cancel(receive, -ETIMEDOUT);
    EXPECT_EQ(driver_.run_ready(), 1);
    EXPECT_EQ(receive.data.system_errno(), ETIMEDOUT);
    driver_.submit(receive, bulk.slot);
    write_all(bulk.pair.far.get(), bytes_of("more"));
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 3; }));
    EXPECT_EQ(text_of(receive.data.bytes()), "more");
}

TEST_F(IoUringReceiver, ByHandEndsWithItsSocket) {
    const Bulk bulk(driver_);
    ReceiveLent receive(driver_);
    receive.always_completes = true;
    driver_.submit(receive, bulk.slot);
    driver_.detach(bulk.slot, Detach::keep);
    EXPECT_EQ(driver_.run_ready(), 1);
    EXPECT_EQ(receive.data.system_errno(), ECANCELED);
}

TEST_F(IoUringReceiver, ANonblockingSocketFromElsewhereWorks) {
    const SocketPair pair = tcp_pair();
    int on = 1;
    ::ioctl(pair.near.get(), FIONBIO, &on);
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 8> buffer{};
    Receive receive(driver_);
    receive.buffer = buffer;
    driver_.submit(receive, slot);
    driver_.turn();
    driver_.turn();
    EXPECT_FALSE(receive.has_completed());
    write_all(pair.far.get(), bytes_of("x"));
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(receive.result, 1);
}

TEST_F(IoUringReceiver, NothingIsAllocatedBeforeSomebodyReceivesByLending) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 8> buffer{};
    Receive receive(driver_);
    receive.buffer = buffer;
    driver_.submit(receive, slot);
    write_all(pair.far.get(), bytes_of("x"));
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_FALSE(driver_.core().buffers.group(BufferKind::small).is_open());
    EXPECT_FALSE(driver_.core().buffers.group(BufferKind::large).is_open());
}

// With 8 buffers for 100 connections that all speak at once, most find none.
TEST(IoUringStarvation, EverybodyIsServedInTheEnd) {
    IoUringOptions options;
    options.buffers = {.first_small = 8,
                       .most_small_target = 8,
                       .most_small = 8,
                       .first_large = 2,
                       .most_large_target = 2,
                       .most_large = 2};
    Driver driver(options);
    constexpr std::size_t kCount = 100;
    constexpr int kRounds = 20;
    std::vector<SocketPair> pairs;
    std::vector<SlotHandle> slots;
    std::deque<ReceiveLent> receives;
    std::vector<std::string> texts(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(unix_pair());
        slots.push_back(driver.attach(pairs[i].near.get(), DescriptorKind::stream));
        ReceiveLent& receive = receives.emplace_back(driver);
        receive.then = [&driver, &slots, &texts, i](ReceiveLent& done) {
            ASSERT_GT(done.result, 0);
            texts[i] += text_of(done.data.bytes());
            done.data.give_back();
            driver.submit(done, slots[i]);
        };
        driver.submit(receive, slots[i]);
    }
    driver.turn();
    std::string expected;
    for (int round = 0; round < kRounds; ++round) {
        expected += static_cast<char>('a' + round);
        for (const SocketPair& pair : pairs) {
            write_all(pair.far.get(), bytes_of(expected).last(1));
        }
        ASSERT_TRUE(driver.run_until([&] {
            return std::ranges::all_of(texts, [&](const auto& text) { return text == expected; });
        }));
    }
    for (std::size_t i = 0; i < kCount; ++i) {
        receives[i].then = nullptr;
        driver.cancel(receives[i]);
    }
    driver.turn();
}

TEST(IoUringStarvation, BuffersThatUsersKeepStopTheOthersUntilTheyComeBack) {
    IoUringOptions options;
    options.buffers = {.first_small = 2,
                       .most_small_target = 2,
                       .most_small = 2,
                       .first_large = 2,
                       .most_large_target = 2,
                       .most_large = 2};
    Driver driver(options);
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::optional<ReceiveLent>, 3> receives;
    for (auto& receive : receives) {
        receive.emplace(driver);
        driver.submit(*receive, slot);
        write_all(pair.far.get(), bytes_of("x"));
        driver.turn();
    }
    EXPECT_TRUE(receives[1]->has_completed());
    EXPECT_FALSE(receives[2]->has_completed());
    for (int i = 0; i < 10; ++i) {
        driver.turn();
    }
    EXPECT_FALSE(receives[2]->has_completed());
    receives[0]->data.give_back();
    ASSERT_TRUE(driver.run_until(*receives[2]));
    EXPECT_EQ(text_of(receives[2]->data.bytes()), "x");
}

}  // namespace
}  // namespace berth::internal
