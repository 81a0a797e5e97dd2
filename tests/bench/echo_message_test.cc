// SPDX-License-Identifier: Apache-2.0
#include "bench/echo/message.h"
#include "bench/echo/open_loop.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace berth::bench {
namespace {

std::vector<std::byte> answers(std::uint32_t connection, std::initializer_list<unsigned> numbers) {
    std::vector<std::byte> bytes;
    for (const unsigned number : numbers) {
        const Message message = make_message(connection, number);
        const auto* const start = reinterpret_cast<const std::byte*>(message.data());
        bytes.insert(bytes.end(), start, start + kMessageSize);
    }
    return bytes;
}

TEST(EchoMessage, NoTwoMessagesHaveAWordInCommon) {
    std::set<std::uint64_t> words;
    for (std::uint32_t connection = 0; connection < 100; ++connection) {
        for (std::uint64_t number = 0; number < 100; ++number) {
            const Message message = make_message(connection, number);
            words.insert(message.begin(), message.end());
        }
    }
    EXPECT_EQ(words.size(), 100U * 100U * 8U);
}

TEST(EchoMessage, AnswersMayComeInPieces) {
    const std::vector<std::byte> bytes = answers(7, {0, 1, 2});
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
        AnswerCheck check;
        unsigned completed = 0;
        for (std::size_t start = 0; start < bytes.size(); start += piece) {
            const std::size_t size = std::min(piece, bytes.size() - start);
            completed += check.take(7, std::span(bytes).subspan(start, size));
        }
        EXPECT_EQ(completed, 3U) << piece;
        EXPECT_EQ(check.message_count(), 3U) << piece;
        EXPECT_TRUE(check.is_intact()) << piece;
    }
}

TEST(EchoMessage, AnAnswerOutOfOrderOrOfAnotherConnectionIsNoticed) {
    AnswerCheck swapped;
    swapped.take(7, answers(7, {1, 0}));
    EXPECT_FALSE(swapped.is_intact());
    AnswerCheck foreign;
    foreign.take(7, answers(8, {0}));
    EXPECT_FALSE(foreign.is_intact());
    AnswerCheck damaged;
    std::vector<std::byte> bytes = answers(7, {0});
    bytes.back() ^= std::byte{1};
    damaged.take(7, bytes);
    EXPECT_FALSE(damaged.is_intact());
}

TEST(OpenLoop, MessagesAreDueAtTheirRateWhateverHappens) {
    const OpenLoop loop(1'000'000, 1e6, 3);  // one each microsecond
    EXPECT_EQ(loop.due_count(999'999), 0U);
    EXPECT_EQ(loop.due_count(1'000'000), 1U);
    EXPECT_EQ(loop.due_count(1'002'500), 3U);
    EXPECT_EQ(loop.due_count(2'000'000), 1'001U);
    EXPECT_EQ(loop.due_ns(1'000), 2'000'000U);
}

TEST(OpenLoop, AConnectionsMessagesKeepTheTimesTheyWereDueAt) {
    const OpenLoop loop(0, 1e9, 4);
    for (std::uint64_t message = 0; message < 100; ++message) {
        const std::uint32_t connection = loop.connection_of(message);
        EXPECT_EQ(connection, message % 4);
        EXPECT_EQ(loop.due_ns(connection, message / 4), loop.due_ns(message));
    }
}

}  // namespace
}  // namespace berth::bench
