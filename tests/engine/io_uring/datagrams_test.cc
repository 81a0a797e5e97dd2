// SPDX-License-Identifier: Apache-2.0

// Datagrams, one by one, in batches, and lent.

#include "tests/engine/io_uring/engine_driver.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <thread>

#ifndef UDP_GRO
#define UDP_GRO 104  // NOLINT: linux/udp.h
#endif

namespace berth::internal {
namespace {

using ReceiveFrom = Counted<ReceiveFromOperation>;
using SendTo = Counted<SendToOperation>;
using ReceiveBatch = Counted<ReceiveBatchOperation>;
using SendBatch = Counted<SendBatchOperation>;
using ReceiveLent = Counted<ReceiveLentOperation>;

class IoUringDatagrams : public testing::Test {
protected:
    SlotHandle attach(const SocketPair& pair) {
        return driver_.attach(pair.near.get(), DescriptorKind::datagram);
    }
    static void set(SendTo& operation, std::string_view text) {
        operation.single = {const_cast<char*>(text.data()), text.size()};
    }

    Driver driver_;
};

TEST_F(IoUringDatagrams, SayWhereTheyComeFrom) {
    const SocketPair pair = udp_pair();
    const SlotHandle slot = attach(pair);
    std::array<std::byte, 4> buffer{};
    ReceiveFrom receive(driver_);
    receive.buffer = buffer;
    driver_.submit(receive, slot);
    driver_.turn();
    write_all(pair.far.get(), bytes_of("abc"));
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(receive.result, 3);
    EXPECT_EQ(text_of(std::span(buffer).first(3)), "abc");
    EXPECT_EQ(receive.from, local_endpoint(pair.far.get()));
    EXPECT_FALSE(receive.is_truncated);
    write_all(pair.far.get(), bytes_of("abcdefgh"));
    driver_.submit(receive, slot);
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 2; }));
    EXPECT_EQ(receive.result, 4);
    EXPECT_TRUE(receive.is_truncated);
}

TEST_F(IoUringDatagrams, GoWhereTheyAreSent) {
    const SocketPair pair = udp_pair();
    const Descriptor free(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SlotHandle slot = driver_.attach(free.get(), DescriptorKind::datagram);
    const Endpoint near = local_endpoint(pair.near.get());
    // The pair is connected, and takes datagrams from its peer only: an own receiver.
    const Descriptor sink(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(sink.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    SendTo send(driver_);
    set(send, "hello");
    send.to = local_endpoint(sink.get());
    send.has_destination = true;
    driver_.submit(send, slot);
    ASSERT_TRUE(driver_.run_until(send));
    EXPECT_EQ(send.result, 5);
    EXPECT_EQ(text_of(read_all(sink.get(), 5)), "hello");
    EXPECT_NE(send.to, near);
}

TEST_F(IoUringDatagrams, SeveralOfATurnKeepTheirOrderAndTheirBorders) {
    const SocketPair pair = unix_pair(SOCK_SEQPACKET);
    const SlotHandle slot = attach(pair);
    std::deque<SendTo> sends;
    std::vector<std::string> texts;
    for (int i = 0; i < 100; ++i) {
        texts.push_back(std::to_string(i));
    }
    for (const std::string& text : texts) {
        set(sends.emplace_back(driver_), text);
        driver_.submit(sends.back(), slot);
    }
    std::thread reader([&] {
        std::array<std::byte, 16> buffer{};
        for (const std::string& text : texts) {
            const ssize_t count = ::read(pair.far.get(), buffer.data(), buffer.size());
            EXPECT_EQ(text_of(std::span(buffer).first(static_cast<std::size_t>(count))), text);
        }
    });
    EXPECT_TRUE(driver_.run_until(sends.back()));
    reader.join();
    for (const SendTo& send : sends) {
        EXPECT_EQ(send.completion_count, 1);
        EXPECT_GT(send.result, 0);
    }
}

TEST_F(IoUringDatagrams, ASendWaitsForRoomAndIsCancelled) {
    const SocketPair pair = unix_pair(SOCK_DGRAM);
    const SlotHandle slot = attach(pair);
    // The peer's queue is short.
    while (::send(pair.near.get(), "x", 1, MSG_DONTWAIT) == 1) {
    }
    SendTo first(driver_);
    SendTo second(driver_);
    set(first, "first");
    set(second, "second");
    driver_.submit(first, slot);
    driver_.turn();
    driver_.submit(second, slot);
    driver_.turn();
    EXPECT_FALSE(first.has_completed());
    driver_.cancel(first, -ETIMEDOUT);
    ASSERT_TRUE(driver_.run_until(first));
    EXPECT_EQ(first.result, -ETIMEDOUT);
    EXPECT_FALSE(second.has_completed());
    std::array<std::byte, 16> buffer{};
    while (!second.has_completed()) {
        ASSERT_GT(::read(pair.far.get(), buffer.data(), buffer.size()), 0);
        driver_.turn();
    }
    EXPECT_EQ(second.result, 6);
}

TEST_F(IoUringDatagrams, AnErrorOfOneIsNotTheNext) {
    SocketPair pair = udp_pair();
    const SlotHandle slot = attach(pair);
    pair.far.reset();
    SendTo first(driver_);
    set(first, "x");
    driver_.submit(first, slot);
    ASSERT_TRUE(driver_.run_until(first));
    EXPECT_EQ(first.result, 1);
    // The kernel has heard by now that nobody is there, and says so once.
    SendTo second(driver_);
    set(second, "x");
    driver_.submit(second, slot);
    ASSERT_TRUE(driver_.run_until(second));
    EXPECT_EQ(second.result, -ECONNREFUSED);
    SendTo third(driver_);
    set(third, "x");
    driver_.submit(third, slot);
    ASSERT_TRUE(driver_.run_until(third));
    EXPECT_EQ(third.result, 1);
}

TEST_F(IoUringDatagrams, AnEmptyOneIsADatagramToo) {
    const SocketPair pair = udp_pair();
    const SlotHandle slot = attach(pair);
    ReceiveLent receive(driver_);
    std::vector<std::string> got;
    receive.then = [&](ReceiveLent& done) {
        ASSERT_GE(done.result, 0);
        got.push_back(text_of(done.data.bytes()));
        done.data.give_back();
    };
    driver_.submit(receive, slot);
    driver_.turn();
    for (const char* text : {"a", "", "b", "", "", "c"}) {
        ASSERT_GE(::send(pair.far.get(), text, std::strlen(text), 0), 0);
    }
    while (got.size() < 6) {
        if (receive.is_pending()) {
            driver_.turn_waiting();
        } else {
            driver_.submit(receive, slot);
        }
    }
    EXPECT_EQ(got, (std::vector<std::string>{"a", "", "b", "", "", "c"}));
}

TEST_F(IoUringDatagrams, ALargeOneIsLentUncut) {
    const SocketPair pair = udp_pair();
    const SlotHandle slot = attach(pair);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    driver_.turn();
    const std::vector<std::byte> data = pattern(0, 60'000);
    write_all(pair.far.get(), data);
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(receive.result, 60'000);
    EXPECT_TRUE(is_pattern(receive.data.bytes(), 0));
}

TEST_F(IoUringDatagrams, BatchesAreReceived) {
    const SocketPair pair = udp_pair();
    const SlotHandle slot = attach(pair);
    std::array<std::array<std::byte, 16>, 8> memory{};
    std::array<Datagram, 8> datagrams;
    for (std::size_t i = 0; i < 8; ++i) {
        datagrams[i].buffer = memory[i];
    }
    ReceiveBatch receive(driver_);
    receive.datagrams = datagrams;
    EXPECT_EQ(driver_.submit(receive, slot), Start::pending);
    driver_.turn();
    for (const char* text : {"1", "22", "333"}) {
        write_all(pair.far.get(), bytes_of(text));
    }
    ASSERT_TRUE(driver_.run_until(receive));
    EXPECT_EQ(receive.result, 3);
    EXPECT_EQ(datagrams[2].size, 3U);
    EXPECT_EQ(Endpoint(datagrams[0].peer), local_endpoint(pair.far.get()));
    // A batch that was not full has left nothing behind, most likely: the kernel will tell.
    write_all(pair.far.get(), bytes_of("4444"));
    EXPECT_EQ(driver_.submit(receive, slot), Start::pending);
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 2; }));
    EXPECT_EQ(receive.result, 1);
    receive.datagrams = std::span(datagrams).first(2);
    for (const char* text : {"1", "2", "3"}) {
        write_all(pair.far.get(), bytes_of(text));
    }
    driver_.submit(receive, slot);
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 3; }));
    EXPECT_EQ(receive.result, 2);
    EXPECT_EQ(driver_.submit(receive, slot), Start::done) << "a full one is tried at once";
    EXPECT_EQ(receive.result, 1);
    driver_.submit(receive, slot);
    driver_.turn();
    driver_.cancel(receive);
    ASSERT_TRUE(driver_.run_until([&] { return receive.completion_count == 5; }));
    EXPECT_EQ(receive.result, -ECANCELED);
}

TEST_F(IoUringDatagrams, BatchesAreSent) {
    const SocketPair pair = unix_pair(SOCK_DGRAM);
    const SlotHandle slot = attach(pair);
    std::array<std::array<std::byte, 8>, 100> memory{};
    std::array<Datagram, 100> datagrams;
    for (std::size_t i = 0; i < 100; ++i) {
        memory[i].fill(static_cast<std::byte>(i));
        datagrams[i].buffer = memory[i];
    }
    SendBatch send(driver_);
    send.datagrams = datagrams;
    driver_.submit(send, slot);
    std::thread reader([&] {
        std::array<std::byte, 16> buffer{};
        for (std::size_t i = 0; i < 100; ++i) {
            EXPECT_EQ(::read(pair.far.get(), buffer.data(), buffer.size()), 8);
            EXPECT_EQ(buffer[7], static_cast<std::byte>(i));
        }
    });
    EXPECT_TRUE(driver_.run_until(send));
    reader.join();
    EXPECT_EQ(send.result, 100);
}

TEST_F(IoUringDatagrams, OtherReceivesTakeFirstWhatWasReceivedAhead) {
    const SocketPair pair = udp_pair();
    const SlotHandle slot = attach(pair);
    ReceiveLent lent(driver_);
    driver_.submit(lent, slot);
    write_all(pair.far.get(), bytes_of("one"));
    ASSERT_TRUE(driver_.run_until(lent));
    write_all(pair.far.get(), bytes_of("two"));
    write_all(pair.far.get(), bytes_of("three"));
    driver_.turn();
    std::array<std::byte, 4> buffer{};
    ReceiveFrom from(driver_);
    from.buffer = buffer;
    EXPECT_EQ(driver_.submit(from, slot), Start::done);
    EXPECT_EQ(from.result, 3);
    EXPECT_EQ(from.from, local_endpoint(pair.far.get()));
    Datagram datagram;
    datagram.buffer = buffer;
    ReceiveBatch batch(driver_);
    batch.datagrams = std::span(&datagram, 1);
    EXPECT_EQ(driver_.submit(batch, slot), Start::done);
    EXPECT_EQ(datagram.size, 4U);
    EXPECT_TRUE(datagram.is_truncated);
    // Nothing is left: these ask the kernel, which has first to end what goes on by itself.
    driver_.submit(from, slot);
    driver_.turn();
    write_all(pair.far.get(), bytes_of("four"));
    ASSERT_TRUE(driver_.run_until([&] { return from.completion_count == 2; }));
    EXPECT_EQ(text_of(buffer), "four");
}

TEST_F(IoUringDatagrams, AreSegmentedAndJoined) {
    const SocketPair pair = udp_pair();
    int on = 1;
    if (::setsockopt(pair.near.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0) {
        GTEST_SKIP() << "no UDP_GRO";
    }
    const SlotHandle slot = attach(pair);
    const SlotHandle far = driver_.attach(pair.far.get(), DescriptorKind::datagram);
    const std::string text(3000, 'x');
    SendTo send(driver_);
    set(send, text);
    send.segment_size = 1000;
    driver_.submit(send, far);
    ASSERT_TRUE(driver_.run_until(send));
    EXPECT_EQ(send.result, 3000);
    std::array<std::byte, 4000> buffer{};
    ReceiveFrom receive(driver_);
    receive.buffer = buffer;
    driver_.submit(receive, slot);
    ASSERT_TRUE(driver_.run_until(receive));
    // Loopback may hand them on joined, or one by one.
    if (receive.result == 3000) {
        EXPECT_EQ(receive.segment_size, 1000);
    } else {
        EXPECT_EQ(receive.result, 1000);
    }
}

TEST_F(IoUringDatagrams, ManySocketsReceiveAtOnce) {
    constexpr std::size_t kCount = 300;
    std::vector<SocketPair> pairs;
    std::deque<ReceiveFrom> receives;
    std::vector<std::array<std::byte, 8>> memory(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        pairs.push_back(udp_pair());
        receives.emplace_back(driver_).buffer = memory[i];
        driver_.submit(receives[i], attach(pairs[i]));
    }
    driver_.turn();
    for (std::size_t i = 0; i < kCount; ++i) {
        write_all(pairs[i].far.get(), std::as_bytes(std::span(&i, 1)));
    }
    ASSERT_TRUE(driver_.run_until([&] {
        return std::ranges::all_of(receives, [](const auto& one) { return one.has_completed(); });
    }));
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(std::memcmp(memory[i].data(), &i, 8), 0);
        EXPECT_EQ(receives[i].from, local_endpoint(pairs[i].far.get()));
    }
}

}  // namespace
}  // namespace berth::internal
