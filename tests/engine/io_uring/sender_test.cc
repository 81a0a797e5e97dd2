// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/sender.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <thread>

namespace berth::internal {
namespace {

using Send = Counted<SendOperation>;

class IoUringSender : public testing::Test {
protected:
    SlotHandle attach(const SocketPair& pair) {
        return driver_.attach(pair.near.get(), DescriptorKind::stream);
    }
    Start send(Send& operation, SlotHandle slot, std::span<const std::byte> bytes) {
        operation.set(bytes);
        operation.sent = 0;
        return driver_.submit(operation, slot);
    }
    /// Fills the socket until the kernel takes no more; answers how many bytes that were.
    static std::size_t fill(int fd) {
        const std::vector<std::byte> block(4096);
        std::size_t size = 0;
        for (;;) {
            const ssize_t count = ::send(fd, block.data(), block.size(), MSG_DONTWAIT);
            if (count < 0) {
                return size;
            }
            size += static_cast<std::size_t>(count);
        }
    }

    Driver driver_;
};

TEST_F(IoUringSender, SendsAndCompletesInTheSameTurn) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    Send operation(driver_);
    EXPECT_EQ(send(operation, slot, bytes_of("hello")), Start::pending);
    EXPECT_EQ(driver_.turn_waiting(), 1);
    EXPECT_EQ(operation.result, 5);
    EXPECT_EQ(operation.sent, 5U);
    EXPECT_EQ(text_of(read_all(pair.far.get(), 5)), "hello");
}

TEST_F(IoUringSender, ManySendsOfATurnGoOutTogetherAndInOrder) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    std::deque<Send> sends;
    std::vector<std::vector<std::byte>> data;
    for (std::size_t i = 0; i < 50; ++i) {
        data.push_back(pattern(i * 10, 10));
        send(sends.emplace_back(driver_), slot, data[i]);
    }
    EXPECT_EQ(driver_.turn(), 50);
    EXPECT_EQ(driver_.statistics().submission_count, 1U);
    EXPECT_TRUE(is_pattern(read_all(pair.far.get(), 500), 0));
}

TEST_F(IoUringSender, MorePartsThanOneMessageHoldsGoOutWhole) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    const std::vector<std::byte> data = pattern(0, 3000);
    std::vector<iovec> parts;
    for (std::size_t i = 0; i < 1000; ++i) {
        parts.push_back({const_cast<std::byte*>(data.data()) + i * 3, 3});
    }
    Send first(driver_);
    Send second(driver_);
    first.parts = parts;
    driver_.submit(first, slot);
    const std::vector<std::byte> rest = pattern(3000, 10);
    send(second, slot, rest);
    ASSERT_TRUE(driver_.run_until(second));
    EXPECT_EQ(first.result, 3000);
    EXPECT_EQ(second.result, 10);
    EXPECT_TRUE(is_pattern(read_all(pair.far.get(), 3010), 0));
}

TEST_F(IoUringSender, AnEmptySendCompletes) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    Send first(driver_);
    Send second(driver_);
    Send third(driver_);
    send(first, slot, {});
    send(second, slot, bytes_of("x"));
    send(third, slot, {});
    ASSERT_TRUE(driver_.run_until(third));
    EXPECT_EQ(first.result, 0);
    EXPECT_EQ(second.result, 1);
    EXPECT_EQ(third.result, 0);
}

TEST_F(IoUringSender, ALargeSendGoesOutWholeToASlowReader) {
    for (const bool is_tcp : {false, true}) {
        const SocketPair pair = is_tcp ? tcp_pair() : unix_pair();
        const SlotHandle slot = attach(pair);
        const std::vector<std::byte> data = pattern(0, 4 << 20);
        Send operation(driver_);
        send(operation, slot, data);
        driver_.turn();
        EXPECT_FALSE(operation.has_completed());
        std::vector<std::byte> got;
        std::thread reader([&] { got = read_all(pair.far.get(), data.size()); });
        EXPECT_TRUE(driver_.run_until(operation));
        reader.join();
        EXPECT_EQ(operation.result, 4 << 20);
        EXPECT_TRUE(got == data);
        driver_.detach(slot, Detach::keep);
    }
}

// Small ones and large ones, of one and of many parts, into a socket that is full most of the time.
TEST_F(IoUringSender, InterleavedSendsKeepTheirOrderWithASlowReader) {
    const SocketPair pair = unix_pair();
    set_send_buffer(pair.near.get(), 8192);
    const SlotHandle slot = attach(pair);
    constexpr std::size_t kCount = 400;
    std::deque<Send> sends;
    std::vector<std::vector<std::byte>> data;
    std::vector<std::array<iovec, 3>> parts(kCount);
    std::size_t total = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t size = i % 7 == 0 ? 50'000 : 1 + i * 37 % 3000;
        data.push_back(pattern(total, size));
        total += size;
    }
    std::vector<std::byte> got;
    std::thread reader([&] { got = read_all(pair.far.get(), total); });
    for (std::size_t i = 0; i < kCount; ++i) {
        Send& operation = sends.emplace_back(driver_);
        if (i % 3 == 0) {
            const std::size_t cut = data[i].size() / 3;
            parts[i] = {iovec{data[i].data(), cut}, iovec{data[i].data() + cut, 0},
                        iovec{data[i].data() + cut, data[i].size() - cut}};
            operation.parts = parts[i];
            driver_.submit(operation, slot);
        } else {
            send(operation, slot, data[i]);
        }
        if (i % 5 == 0) {
            driver_.turn();
        }
    }
    EXPECT_TRUE(driver_.run_until(sends.back()));
    reader.join();
    EXPECT_TRUE(is_pattern(got, 0));
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(sends[i].completion_count, 1);
        EXPECT_EQ(sends[i].result, static_cast<int>(data[i].size()));
    }
}

TEST_F(IoUringSender, ASendThatWaitsInTheQueueIsCancelledWithoutHarm) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    const std::size_t filled = fill(pair.near.get());
    Send first(driver_);
    Send second(driver_);
    Send third(driver_);
    send(first, slot, bytes_of("first"));
    driver_.turn();
    send(second, slot, bytes_of("second"));
    send(third, slot, bytes_of("third"));
    driver_.turn();
    driver_.cancel(second, -ETIMEDOUT);
    ASSERT_TRUE(driver_.run_until(second));
    EXPECT_EQ(second.result, -ETIMEDOUT);
    EXPECT_EQ(second.sent, 0U);
    read_all(pair.far.get(), filled);
    ASSERT_TRUE(driver_.run_until(third));
    EXPECT_EQ(text_of(read_all(pair.far.get(), 10)), "firstthird");
}

TEST_F(IoUringSender, ASendInFlightIsCancelledAndTheOthersOfItsBatchGoOut) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    const std::size_t filled = fill(pair.near.get());
    std::deque<Send> sends;
    for (const char* text : {"one", "two", "three", "four"}) {
        send(sends.emplace_back(driver_), slot, bytes_of(text));
    }
    driver_.turn();
    driver_.turn();
    driver_.cancel(sends[0]);
    driver_.cancel(sends[2]);
    ASSERT_TRUE(driver_.run_until(sends[0]));
    ASSERT_TRUE(driver_.run_until(sends[2]));
    EXPECT_EQ(sends[0].result, -ECANCELED);
    EXPECT_EQ(sends[2].result, -ECANCELED);
    read_all(pair.far.get(), filled);
    ASSERT_TRUE(driver_.run_until(sends[3]));
    EXPECT_EQ(text_of(read_all(pair.far.get(), 7)), "twofour");
    EXPECT_EQ(sends[1].result, 3);
}

TEST_F(IoUringSender, ASendOfWhichAPartWentOutEndsTheStream) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    const std::vector<std::byte> data = pattern(0, 4 << 20);
    Send large(driver_);
    Send next(driver_);
    Send later(driver_);
    send(large, slot, data);
    send(next, slot, bytes_of("next"));
    driver_.turn();
    driver_.cancel(large, -ETIMEDOUT);
    ASSERT_TRUE(driver_.run_until(large));
    EXPECT_EQ(large.result, -ETIMEDOUT);
    EXPECT_GT(large.sent, 0U);
    EXPECT_LT(large.sent, data.size());
    ASSERT_TRUE(driver_.run_until(next));
    EXPECT_EQ(next.result, -EPIPE);
    EXPECT_EQ(send(later, slot, bytes_of("later")), Start::done);
    EXPECT_EQ(later.result, -EPIPE);
    const std::size_t sent = large.sent;
    driver_.detach(slot, Detach::keep);
    ::shutdown(pair.near.get(), SHUT_WR);
    const auto got = read_all(pair.far.get(), data.size());
    EXPECT_EQ(got.size(), sent);
    EXPECT_TRUE(is_pattern(got, 0));
}

TEST_F(IoUringSender, SendingToAPeerThatHasGoneIsAnError) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    pair.far.reset();
    Send first(driver_);
    Send second(driver_);
    send(first, slot, bytes_of("a"));
    send(second, slot, bytes_of("b"));
    ASSERT_TRUE(driver_.run_until(second));
    EXPECT_EQ(first.result, -EPIPE);
    EXPECT_EQ(second.result, -EPIPE);
    EXPECT_EQ(first.sent, 0U);
}

TEST_F(IoUringSender, APeerThatGoesWhileASendWaitsIsAnError) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    const std::vector<std::byte> data(4 << 20);
    Send operation(driver_);
    send(operation, slot, data);
    driver_.turn();
    pair.far.reset();
    ASSERT_TRUE(driver_.run_until(operation));
    EXPECT_EQ(operation.result, -EPIPE);
    EXPECT_GT(operation.sent, 0U);
}

// The bytes are out although nobody was told: the loop sleeps on.
TEST_F(IoUringSender, ASendThatNobodyWaitsForDoesNotKeepTheLoopAwake) {
    const SocketPair pair = unix_pair();
    const SocketPair other = unix_pair();
    const SlotHandle slot = attach(pair);
    const SlotHandle other_slot = attach(other);
    Counted<ReceiveLentOperation> receive(driver_);
    driver_.submit(receive, other_slot);
    Send operation(driver_);
    operation.keeps_alive = false;
    send(operation, slot, bytes_of("hello"));
    std::thread peer([&] {
        EXPECT_EQ(text_of(read_all(pair.far.get(), 5)), "hello");
        write_all(other.far.get(), bytes_of("x"));
    });
    const auto before = driver_.statistics();
    EXPECT_TRUE(driver_.run_until(receive));
    peer.join();
    EXPECT_EQ(driver_.statistics().wait_count, before.wait_count + 1);
    EXPECT_TRUE(operation.has_completed());
    receive.data.give_back();
}

TEST_F(IoUringSender, ASendSubmittedBeforeACloseGoesOut) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    Send operation(driver_);
    send(operation, slot, bytes_of("bye"));
    driver_.detach(slot, Detach::close);
    pair.near.release();
    driver_.run_ready();
    EXPECT_EQ(operation.result, 3);
    EXPECT_EQ(text_of(read_all(pair.far.get(), 10)), "bye");
}

TEST_F(IoUringSender, SendsAFile) {
    const SocketPair pair = tcp_pair();
    const SlotHandle slot = attach(pair);
    Descriptor file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.is_open()) {
        GTEST_SKIP() << "no O_TMPFILE on /tmp";
    }
    const std::vector<std::byte> data = pattern(0, 3 << 20);
    ASSERT_EQ(::pwrite(file.get(), data.data(), data.size(), 0), 3 << 20);
    Send before(driver_);
    Counted<SendFileOperation> operation(driver_);
    Send after(driver_);
    send(before, slot, bytes_of("<"));
    operation.file = file.get();
    operation.offset = 100;
    operation.size = 3'000'000;
    driver_.submit(operation, slot);
    send(after, slot, bytes_of(">"));
    std::vector<std::byte> got;
    std::thread reader([&] { got = read_all(pair.far.get(), 3'000'002); });
    EXPECT_TRUE(driver_.run_until(after));
    reader.join();
    EXPECT_EQ(operation.result, 3'000'000);
    ASSERT_EQ(got.size(), 3'000'002U);
    EXPECT_EQ(got.front(), std::byte{'<'});
    EXPECT_EQ(got.back(), std::byte{'>'});
    EXPECT_TRUE(is_pattern(std::span(got).subspan(1, 3'000'000), 100));
    // The end of the file comes before the end of what was asked for.
    operation.offset = (3 << 20) - 10;
    operation.size = 100;
    operation.sent = 0;
    driver_.submit(operation, slot);
    ASSERT_TRUE(driver_.run_until([&] { return operation.completion_count == 2; }));
    EXPECT_EQ(operation.result, 10);
}

TEST_F(IoUringSender, AFileOfWhichAPartWentOutEndsTheStream) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = attach(pair);
    Descriptor file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.is_open()) {
        GTEST_SKIP() << "no O_TMPFILE on /tmp";
    }
    ASSERT_EQ(::ftruncate(file.get(), 8 << 20), 0);
    Counted<SendFileOperation> operation(driver_);
    operation.file = file.get();
    operation.size = 8 << 20;
    driver_.submit(operation, slot);
    driver_.turn();
    ASSERT_FALSE(operation.has_completed());
    driver_.cancel(operation);
    ASSERT_TRUE(driver_.run_until(operation));
    EXPECT_EQ(operation.result, -ECANCELED);
    EXPECT_GT(operation.sent, 0U);
    Send later(driver_);
    EXPECT_EQ(send(later, slot, bytes_of("later")), Start::done);
    EXPECT_EQ(later.result, -EPIPE);
}

TEST_F(IoUringSender, AThousandSocketsSendInOneTurn) {
    constexpr std::size_t kCount = 3000;
    std::vector<SocketPair> pairs;
    std::deque<Send> sends;
    const std::vector<std::byte> data = pattern(7, 100);
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(unix_pair());
        const SlotHandle slot = attach(pairs[i]);
        send(sends.emplace_back(driver_), slot, data);
    }
    EXPECT_EQ(driver_.turn(), static_cast<int>(kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_TRUE(is_pattern(read_all(pairs[i].far.get(), 100), 7));
    }
    // 1,024 entries fit: the queue is sent off when it is full.
    EXPECT_LE(driver_.statistics().wait_count, 4U);
}

}  // namespace
}  // namespace berth::internal
