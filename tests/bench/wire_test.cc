// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/wire.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <map>

namespace berth::bench {
namespace {

using namespace std::chrono_literals;

using OpenWire = Result<std::unique_ptr<Wire>> (*)(const std::vector<Descriptor>&);

class WireTest : public testing::TestWithParam<OpenWire>, public Wire::Sink {
protected:
    void SetUp() override {
        for (int i = 0; i < kCount; ++i) {
            int ends[2];
            ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
                      0);
            near_.emplace_back(ends[0]);
            far_.emplace_back(ends[1]);
        }
        Result<std::unique_ptr<Wire>> wire = GetParam()(near_);
        if (!wire && wire.error().code() != Errc::system) {
            GTEST_SKIP() << wire.error().message();
        }
        ASSERT_TRUE(wire) << wire.error().message();
        wire_ = std::move(*wire);
    }

    void received(std::uint32_t connection, std::span<const std::byte> data) override {
        auto& bytes = received_[connection];
        bytes.insert(bytes.end(), data.begin(), data.end());
    }

    /// What has come at the far end of a connection.
    std::vector<std::byte> read_far(std::uint32_t connection) {
        std::vector<std::byte> bytes(100'000);
        const ssize_t size =
            ::recv(far_[connection].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        return bytes;
    }

    static constexpr int kCount = 3;
    std::vector<Descriptor> near_;
    std::vector<Descriptor> far_;
    std::unique_ptr<Wire> wire_;
    std::map<std::uint32_t, std::vector<std::byte>> received_;
};

INSTANTIATE_TEST_SUITE_P(Each, WireTest, testing::Values(open_io_uring_wire, open_epoll_wire));

TEST_P(WireTest, MessagesGoOutInOrderOnTheirConnections) {
    constexpr std::uint64_t kMessages = 100;
    for (std::uint64_t number = 0; number < kMessages; ++number) {
        for (std::uint32_t connection = 0; connection < kCount; ++connection) {
            wire_->send(connection, make_message(connection, number));
        }
    }
    ASSERT_TRUE(wire_->exchange(*this, 0ns));
    for (std::uint32_t connection = 0; connection < kCount; ++connection) {
        AnswerCheck check;
        check.take(connection, read_far(connection));
        EXPECT_EQ(check.message_count(), kMessages);
        EXPECT_TRUE(check.is_intact());
    }
}

TEST_P(WireTest, WhatComesIsHandedOutWithItsConnection) {
    for (std::uint32_t connection = 0; connection < kCount; ++connection) {
        const Message message = make_message(connection, 0);
        ASSERT_EQ(::send(far_[connection].get(), message.data(), kMessageSize, 0),
                  static_cast<ssize_t>(kMessageSize));
    }
    for (int tries = 0; tries < 10 && received_.size() < kCount; ++tries) {
        ASSERT_TRUE(wire_->exchange(*this, 1s));
    }
    for (std::uint32_t connection = 0; connection < kCount; ++connection) {
        AnswerCheck check;
        check.take(connection, received_[connection]);
        EXPECT_EQ(check.message_count(), 1U);
        EXPECT_TRUE(check.is_intact());
    }
}

TEST_P(WireTest, AServerThatHasGoneIsAnError) {
    far_[1].reset();
    Result<void> exchanged;
    for (int tries = 0; tries < 10 && exchanged; ++tries) {
        exchanged = wire_->exchange(*this, 1s);
    }
    ASSERT_FALSE(exchanged);
    EXPECT_EQ(exchanged.error().code(), Errc::reset);
}

TEST_P(WireTest, WithNothingToComeItReturnsInTime) {
    EXPECT_TRUE(wire_->exchange(*this, 1ms));
    EXPECT_TRUE(received_.empty());
}

}  // namespace
}  // namespace berth::bench
