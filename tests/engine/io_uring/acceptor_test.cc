// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/acceptor.h"

#include "tests/engine/io_uring/engine_driver.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace berth::internal {
namespace {

using Accept = Counted<AcceptOperation>;

class IoUringAcceptor : public testing::Test {
protected:
    IoUringAcceptor() : listener_(tcp_listener()), to_(local_endpoint(listener_.get())) {
        slot_ = driver_.attach(listener_.get(), DescriptorKind::listener);
    }
    ~IoUringAcceptor() override {
        for (const int fd : taken_) {
            ::close(fd);
        }
    }

    void connect(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            peers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            ASSERT_EQ(::connect(peers_.back().get(), to_.data(), to_.size()), 0);
        }
    }
    void keep(const Accept& operation) {
        taken_.insert(taken_.end(), operation.accepted.begin(),
                      operation.accepted.begin() + static_cast<std::ptrdiff_t>(operation.count()));
    }

    Descriptor listener_;
    Endpoint to_;
    Driver driver_{IoUringOptions{.ring = {}, .buffers = {}, .most_unclaimed = 16}};
    SlotHandle slot_;
    std::vector<Descriptor> peers_;
    std::vector<int> taken_;
};

TEST_F(IoUringAcceptor, AcceptsWhatCame) {
    std::array<int, 4> room{};
    Accept accept(driver_);
    accept.accepted = room;
    EXPECT_EQ(driver_.submit(accept, slot_), Start::pending);
    driver_.turn();
    EXPECT_FALSE(accept.has_completed());
    connect(3);
    ASSERT_TRUE(driver_.run_until(accept));
    keep(accept);
    EXPECT_EQ(accept.result, 3);
    EXPECT_NE(::fcntl(room[0], F_GETFD) & FD_CLOEXEC, 0);
    write_all(room[0], bytes_of("hello"));
    EXPECT_EQ(text_of(read_all(peers_[0].get(), 5)), "hello");
}

TEST_F(IoUringAcceptor, ConnectionsThatNobodyWaitsForAreThereAtOnceAndBounded) {
    std::array<int, 7> room{};
    Accept accept(driver_);
    accept.accepted = room;
    driver_.submit(accept, slot_);
    connect(1);
    ASSERT_TRUE(driver_.run_until(accept));
    keep(accept);
    for (int i = 0; i < 50; ++i) {
        connect(2);
        driver_.turn();
    }
    const AcceptQueue& queue = *driver_.core().slots.at(slot_.index).accepted;
    EXPECT_GE(queue.size(), 16U);
    EXPECT_LE(queue.size(), 24U);
    std::size_t count = taken_.size();
    EXPECT_EQ(driver_.submit(accept, slot_), Start::done);
    EXPECT_EQ(accept.result, 7);
    keep(accept);
    while (taken_.size() < 101) {
        count = taken_.size();
        const int completed = accept.completion_count;
        driver_.submit(accept, slot_);
        ASSERT_TRUE(driver_.run_until([&] { return accept.completion_count > completed; }));
        ASSERT_GT(accept.result, 0);
        keep(accept);
        ASSERT_GT(taken_.size(), count);
    }
}

TEST_F(IoUringAcceptor, UnclaimedConnectionsAreClosedWithTheListener) {
    std::array<int, 1> room{};
    Accept accept(driver_);
    accept.accepted = room;
    driver_.submit(accept, slot_);
    connect(3);
    ASSERT_TRUE(driver_.run_until(accept));
    keep(accept);
    driver_.turn();
    driver_.detach(slot_);
    listener_.release();
    for (std::size_t i = 1; i < 3; ++i) {
        EXPECT_TRUE(read_all(peers_[i].get(), 1).empty());
    }
}

TEST_F(IoUringAcceptor, ACancelledAcceptLosesNoConnection) {
    std::array<int, 4> room{};
    Accept accept(driver_);
    accept.accepted = room;
    driver_.submit(accept, slot_);
    driver_.turn();
    driver_.cancel(accept, -ETIMEDOUT);
    EXPECT_EQ(driver_.run_ready(), 1);
    EXPECT_EQ(accept.result, -ETIMEDOUT);
    connect(2);
    driver_.turn();
    EXPECT_EQ(driver_.submit(accept, slot_), Start::done);
    EXPECT_EQ(accept.result, 2);
    keep(accept);
}

TEST_F(IoUringAcceptor, RunningOutOfDescriptorsIsAResultAndLosesNoConnection) {
    std::array<int, 4> room{};
    Accept accept(driver_);
    accept.accepted = room;
    connect(3);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    // The lowest free number is the next one to be given: one more descriptor, and no other.
    const Descriptor probe(::dup(0));
    const int next = ::dup(0);
    ::close(next);
    rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(next) + 1;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    driver_.submit(accept, slot_);
    ASSERT_TRUE(driver_.run_until(accept));
    EXPECT_EQ(accept.result, 1);
    keep(accept);
    for (int i = 2; i < 5; ++i) {
        driver_.submit(accept, slot_);
        EXPECT_TRUE(driver_.run_until([&] { return accept.completion_count == i; }));
        EXPECT_EQ(accept.result, -EMFILE);
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    driver_.submit(accept, slot_);
    ASSERT_TRUE(driver_.run_until([&] { return accept.completion_count == 5; }));
    EXPECT_EQ(accept.result, 2);
    keep(accept);
}

// Without a connection there is nothing to tell.
TEST_F(IoUringAcceptor, RunningOutOfDescriptorsIsNoResultBeforeThereIsAConnection) {
    std::array<int, 4> room{};
    Accept accept(driver_);
    accept.accepted = room;
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    driver_.turn();
    connect(0);
    const int probe = ::dup(0);
    ::close(probe);
    Descriptor peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(peer.get()) + 1;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    driver_.submit(accept, slot_);
    for (int i = 0; i < 5; ++i) {
        driver_.turn();
    }
    EXPECT_FALSE(accept.has_completed());
    EXPECT_EQ(::connect(peer.get(), to_.data(), to_.size()), 0);
    EXPECT_TRUE(driver_.run_until(accept));
    EXPECT_EQ(accept.result, -EMFILE);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(IoUringAcceptor, OtherOperationsOnAListenerAreRefused) {
    Counted<ReceiveLentOperation> receive(driver_);
    EXPECT_EQ(driver_.submit(receive, slot_), Start::done);
    EXPECT_EQ(receive.result, -ENOTCONN);
    Counted<SendOperation> send(driver_);
    EXPECT_EQ(driver_.submit(send, slot_), Start::done);
    EXPECT_EQ(send.result, -ENOTCONN);
}

}  // namespace
}  // namespace berth::internal
