// SPDX-License-Identifier: Apache-2.0

// How sockets and the engine end, in every state that they can be in.

#include "tests/engine/io_uring/engine_driver.h"

#include <sys/socket.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <deque>

namespace berth::internal {
namespace {

using Close = Counted<CloseOperation>;
using ReceiveLent = Counted<ReceiveLentOperation>;
using Receive = Counted<ReceiveOperation>;
using Send = Counted<SendOperation>;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

class IoUringShutdown : public testing::Test {
protected:
    /// Detaches `pair.near` and expects all of `pending` to end as cancelled, before the close.
    void close_and_check(SlotHandle slot, SocketPair& pair, std::span<Operation* const> pending) {
        Close close(driver_);
        int completed_before = 0;
        close.then = [&](Close&) {
            for (const Operation* operation : pending) {
                completed_before += operation->stage != OperationStage::waiting ? 1 : 0;
            }
        };
        const int fd = pair.near.release();
        driver_.detach(slot, Detach::close, close);
        ASSERT_TRUE(driver_.run_until(close));
        EXPECT_EQ(close.result, 0);
        EXPECT_EQ(completed_before, static_cast<int>(pending.size()));
        for (const Operation* operation : pending) {
            EXPECT_EQ(operation->result, -ECANCELED);
        }
        EXPECT_FALSE(is_open(fd));
        EXPECT_EQ(driver_.core().in_flight_count, 0U);
        EXPECT_EQ(driver_.statistics().socket_count, 0U);
    }

    Driver driver_;
};

TEST_F(IoUringShutdown, ASocketWithNothingInFlightIsClosedAtOnce) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    close_and_check(slot, pair, {});
    EXPECT_TRUE(read_all(pair.far.get(), 1).empty());
}

TEST_F(IoUringShutdown, ThePeerHearsOfItAlthoughRequestsHoldTheFile) {
    SocketPair pair = tcp_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    driver_.turn();
    driver_.detach(slot);
    pair.near.release();
    // No turn of the loop in between.
    EXPECT_TRUE(read_all(pair.far.get(), 1).empty());
    driver_.run_ready();
    EXPECT_EQ(receive.result, -ECANCELED);
}

TEST_F(IoUringShutdown, EveryKindOfPendingOperationEnds) {
    SocketPair pair = tcp_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 16> buffer{};
    const std::vector<std::byte> data(8 << 20);
    ReceiveLent lent(driver_);
    Receive receive(driver_);
    receive.buffer = buffer;
    Send large(driver_);
    large.set(data);
    Send queued(driver_);
    queued.set(data);
    Counted<PollOperation> poll(driver_);
    poll.events = POLLPRI;
    driver_.submit(lent, slot);
    driver_.submit(receive, slot);
    driver_.submit(large, slot);
    driver_.submit(queued, slot);
    driver_.submit(poll, slot);
    driver_.turn();
    driver_.turn();
    const std::array<Operation*, 5> pending = {&lent, &receive, &large, &queued, &poll};
    close_and_check(slot, pair, pending);
}

TEST_F(IoUringShutdown, WhatTheKernelHasNotSeenEndsToo) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    std::array<std::byte, 16> buffer{};
    Receive receive(driver_);
    receive.buffer = buffer;
    Counted<PollOperation> poll(driver_);
    poll.events = POLLIN;
    driver_.submit(receive, slot);
    driver_.submit(poll, slot);
    const std::array<Operation*, 2> pending = {&receive, &poll};
    close_and_check(slot, pair, pending);
}

TEST_F(IoUringShutdown, AConnectUnderWayEnds) {
    const Descriptor listener = tcp_listener();
    ASSERT_EQ(::listen(listener.get(), 0), 0);
    const Endpoint to = local_endpoint(listener.get());
    const Descriptor first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(first.get(), to.data(), to.size()), 0);
    SocketPair pair;
    pair.near.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Counted<ConnectOperation> connect(driver_);
    connect.remote = to;
    driver_.submit(connect, slot);
    driver_.turn();
    const std::array<Operation*, 1> pending = {&connect};
    close_and_check(slot, pair, pending);
}

TEST_F(IoUringShutdown, AStarvedSocketEnds) {
    IoUringOptions options;
    options.buffers = {.first_small = 2,
                       .most_small_target = 2,
                       .most_small = 2,
                       .first_large = 2,
                       .most_large_target = 2,
                       .most_large = 2};
    Driver driver(options);
    std::array<SocketPair, 3> pairs = {unix_pair(), unix_pair(), unix_pair()};
    std::array<SlotHandle, 3> slots;
    std::deque<ReceiveLent> receives;
    for (std::size_t i = 0; i < 3; ++i) {
        slots[i] = driver.attach(pairs[i].near.get(), DescriptorKind::stream);
        driver.submit(receives.emplace_back(driver), slots[i]);
        write_all(pairs[i].far.get(), bytes_of("x"));
        driver.turn();
    }
    EXPECT_FALSE(receives[2].has_completed());
    driver.detach(slots[2], Detach::keep);
    driver.run_ready();
    EXPECT_EQ(receives[2].result, -ECANCELED);
    receives[0].data.give_back();
    receives[1].data.give_back();
    driver.turn();
    // Its place is taken by another, which the list of the starved must not mistake for it.
    const SlotHandle next = driver.attach(pairs[2].near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver);
    driver.submit(receive, next);
    ASSERT_TRUE(driver.run_until(receive));
    EXPECT_EQ(receive.result, 1);
}

TEST_F(IoUringShutdown, UnconsumedBytesGoWithTheSocket) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    write_all(pair.far.get(), bytes_of("a"));
    ASSERT_TRUE(driver_.run_until(receive));
    receive.data.give_back();
    write_all(pair.far.get(), bytes_of("b"));
    driver_.turn();
    EXPECT_EQ(driver_.core().buffers.group(BufferKind::small).held_count(), 1U);
    close_and_check(slot, pair, {});
    EXPECT_EQ(driver_.core().buffers.group(BufferKind::small).held_count(), 0U);
}

TEST_F(IoUringShutdown, AKeptDescriptorIsNotTouchedAnyMore) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver_);
    driver_.submit(receive, slot);
    driver_.turn();
    driver_.detach(slot, Detach::keep);
    write_all(pair.far.get(), bytes_of("mine"));
    driver_.turn();
    driver_.turn();
    EXPECT_EQ(text_of(read_all(pair.near.get(), 4)), "mine");
    EXPECT_EQ(receive.result, -ECANCELED);
}

TEST_F(IoUringShutdown, AnOldHandleIsNobody) {
    const SocketPair pair = unix_pair();
    const SlotHandle old = driver_.attach(pair.near.get(), DescriptorKind::stream);
    driver_.detach(old, Detach::keep);
    const SlotHandle next = driver_.attach(pair.near.get(), DescriptorKind::stream);
    EXPECT_EQ(old.index, next.index);
    EXPECT_NE(old, next);
    ReceiveLent receive(driver_);
    EXPECT_EQ(driver_.submit(receive, old), Start::done);
    EXPECT_EQ(receive.result, -EBADF);
    EXPECT_EQ(receive.data.system_errno(), EBADF);
    Close close(driver_);
    driver_.detach(old, Detach::close, close);
    driver_.run_ready();
    EXPECT_EQ(close.result, -EBADF);
    EXPECT_TRUE(is_open(pair.near.get()));
}

// Each place and each descriptor number is used again at once, with requests in flight.
TEST_F(IoUringShutdown, NothingOfASocketReachesTheNextOne) {
    for (int i = 0; i < 2000; ++i) {
        SocketPair pair = unix_pair();
        const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
        ReceiveLent receive(driver_);
        driver_.submit(receive, slot);
        if (i % 3 == 0) {
            driver_.turn();
        }
        const std::string text = std::to_string(i);
        write_all(pair.far.get(), bytes_of(text));
        if (i % 2 == 0) {
            ASSERT_TRUE(driver_.run_until(receive));
            ASSERT_EQ(text_of(receive.data.bytes()), text);
        }
        driver_.detach(slot);
        pair.near.release();
        ASSERT_TRUE(driver_.run_until(receive));
    }
}

TEST_F(IoUringShutdown, TheEngineEndsEverything) {
    const SocketPair pair = tcp_pair();
    const Descriptor listener = tcp_listener();
    const Pipe pipe = make_pipe();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    const SlotHandle listening = driver_.attach(listener.get(), DescriptorKind::listener);
    const SlotHandle out = driver_.attach(pipe.out.get(), DescriptorKind::other);
    std::array<std::byte, 16> buffer{};
    std::array<int, 2> room{};
    const std::vector<std::byte> data(8 << 20);
    ReceiveLent lent(driver_);
    Send send(driver_);
    send.set(data);
    Counted<AcceptOperation> accept(driver_);
    accept.accepted = room;
    Counted<ReadOperation> read(driver_);
    read.buffer = buffer;
    driver_.submit(lent, slot);
    driver_.submit(send, slot);
    driver_.submit(accept, listening);
    driver_.submit(read, out);
    driver_.turn();
    driver_.engine().shut_down();
    EXPECT_EQ(driver_.run_ready(), 4);
    EXPECT_EQ(lent.result, -ECANCELED);
    EXPECT_EQ(send.result, -ECANCELED);
    EXPECT_EQ(accept.result, -ECANCELED);
    EXPECT_EQ(read.result, -ECANCELED);
    EXPECT_TRUE(is_open(pair.near.get()));
    EXPECT_EQ(driver_.submit(lent, slot), Start::done);
    EXPECT_EQ(lent.result, -EBADF);
}

TEST_F(IoUringShutdown, AnEngineThatNeverRanEnds) {
    const SocketPair pair = unix_pair();
    Driver driver;
    const SlotHandle slot = driver.attach(pair.near.get(), DescriptorKind::stream);
    ReceiveLent receive(driver);
    driver.submit(receive, slot);
    driver.engine().shut_down();
    EXPECT_EQ(driver.run_ready(), 1);
    EXPECT_EQ(receive.result, -ECANCELED);
}

}  // namespace
}  // namespace berth::internal
