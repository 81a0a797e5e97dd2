// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/polls.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <poll.h>
#include <unistd.h>

namespace berth::internal {
namespace {

using Poll = Counted<PollOperation>;

class IoUringPolls : public testing::Test {
protected:
    Driver driver_;
};

TEST_F(IoUringPolls, SayWhatIsReady) {
    SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Poll writable(driver_);
    writable.events = POLLOUT;
    driver_.submit(writable, slot);
    ASSERT_TRUE(driver_.run_until(writable));
    EXPECT_EQ(writable.result, POLLOUT);
    Poll readable(driver_);
    readable.events = POLLIN;
    driver_.submit(readable, slot);
    driver_.turn();
    driver_.turn();
    EXPECT_FALSE(readable.has_completed());
    write_all(pair.far.get(), bytes_of("x"));
    ASSERT_TRUE(driver_.run_until(readable));
    EXPECT_EQ(readable.result, POLLIN);
    // It is still there: a poll tells the state, not the change.
    driver_.submit(readable, slot);
    ASSERT_TRUE(driver_.run_until([&] { return readable.completion_count == 2; }));
    pair.far.reset();
    Poll hung_up(driver_);
    hung_up.events = POLLRDHUP;
    driver_.submit(hung_up, slot);
    ASSERT_TRUE(driver_.run_until(hung_up));
    EXPECT_NE(hung_up.result & POLLRDHUP, 0);
}

TEST_F(IoUringPolls, AreCancelled) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Poll first(driver_);
    Poll second(driver_);
    first.events = POLLIN;
    second.events = POLLIN;
    driver_.submit(first, slot);
    driver_.submit(second, slot);
    driver_.turn();
    driver_.cancel(first, -ETIMEDOUT);
    ASSERT_TRUE(driver_.run_until(first));
    EXPECT_EQ(first.result, -ETIMEDOUT);
    EXPECT_FALSE(second.has_completed());
    // Before the kernel has even seen it.
    Poll third(driver_);
    third.events = POLLIN;
    driver_.submit(third, slot);
    driver_.cancel(third);
    ASSERT_TRUE(driver_.run_until(third));
    EXPECT_EQ(third.result, -ECANCELED);
}

TEST_F(IoUringPolls, SeeWhatWasReceivedAhead) {
    const SocketPair pair = unix_pair();
    const SlotHandle slot = driver_.attach(pair.near.get(), DescriptorKind::stream);
    Counted<ReceiveLentOperation> receive(driver_);
    driver_.submit(receive, slot);
    write_all(pair.far.get(), bytes_of("a"));
    ASSERT_TRUE(driver_.run_until(receive));
    Poll waiting(driver_);
    waiting.events = POLLIN;
    driver_.submit(waiting, slot);
    driver_.turn();
    write_all(pair.far.get(), bytes_of("b"));
    ASSERT_TRUE(driver_.run_until(waiting));
    EXPECT_EQ(waiting.result, POLLIN);
    Poll later(driver_);
    later.events = POLLIN;
    EXPECT_EQ(driver_.submit(later, slot), Start::done);
    EXPECT_EQ(later.result, POLLIN);
    driver_.submit(receive, slot);
    EXPECT_EQ(text_of(receive.data.bytes()), "b");
}

TEST_F(IoUringPolls, AForeignDescriptorIsPolledToo) {
    const Pipe pipe = make_pipe();
    const SlotHandle slot = driver_.attach(pipe.out.get(), DescriptorKind::other);
    Poll poll(driver_);
    poll.events = POLLIN;
    driver_.submit(poll, slot);
    driver_.turn();
    ASSERT_EQ(::write(pipe.in.get(), "x", 1), 1);
    ASSERT_TRUE(driver_.run_until(poll));
    EXPECT_EQ(poll.result, POLLIN);
}

TEST_F(IoUringPolls, ABadDescriptorIsAnError) {
    const SlotHandle slot = driver_.attach(12345, DescriptorKind::other);
    Poll poll(driver_);
    poll.events = POLLIN;
    driver_.submit(poll, slot);
    ASSERT_TRUE(driver_.run_until(poll));
    EXPECT_EQ(poll.result, -EBADF);
}

}  // namespace
}  // namespace berth::internal
