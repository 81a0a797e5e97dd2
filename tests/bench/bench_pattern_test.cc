// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/jobs.h"
#include "bench/programs/pattern.h"
#include "bench/programs/program.h"
#include "bench/transfer/stream_sizes.h"

#include <gtest/gtest.h>

#include <vector>

namespace berth::bench {
namespace {

std::vector<std::byte> stream_bytes(std::size_t stream, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = pattern()[pattern_phase(stream, offset + i)];
    }
    return bytes;
}

TEST(Pattern, MatchesItselfInPiecesOfEverySize) {
    for (const std::size_t size : {1UL, 7UL, 8UL, 9UL, 4'095UL, 65'536UL, 200'000UL}) {
        for (const std::uint64_t offset : {0UL, 1UL, 53'247UL, 53'248UL, 1'000'001UL}) {
            EXPECT_TRUE(pattern_matches(3, offset, stream_bytes(3, offset, size)))
                << size << " at " << offset;
        }
    }
    EXPECT_TRUE(pattern_matches(3, 0, {}));
}

TEST(Pattern, APieceOfAnotherPlaceOrStreamDoesNotMatch) {
    const std::vector<std::byte> bytes = stream_bytes(0, 0, 65'536);
    for (const std::uint64_t offset : {1UL, 64UL, 4'096UL, 16'384UL, 65'536UL, 262'144UL}) {
        EXPECT_FALSE(pattern_matches(0, offset, bytes)) << offset;
    }
    EXPECT_FALSE(pattern_matches(1, 0, bytes));
}

TEST(Pattern, ALossInTheMiddleShowsAtTheEnd) {
    std::vector<std::byte> bytes = stream_bytes(0, 0, 4'000);
    bytes.erase(bytes.begin() + 100);
    EXPECT_FALSE(pattern_matches(0, 0, bytes));
}

TEST(TransferJob, CountsAndChecksEachStream) {
    TransferJob job;
    job.checks.resize(2);
    job.received(0, stream_bytes(0, 0, 1'000));
    job.received(1, stream_bytes(1, 0, 50));
    job.received(0, stream_bytes(0, 1'000, 9'000));
    EXPECT_TRUE(job.checks[0].is_intact);
    EXPECT_EQ(job.checks[0].received_count, 10'000U);
    job.received(1, stream_bytes(1, 0, 50));
    EXPECT_FALSE(job.checks[1].is_intact);
    EXPECT_TRUE(job.checks[0].is_intact);
}

TEST(StreamSizes, AreWholePagesAndMakeUpTheWhole) {
    for (const std::size_t count : {1UL, 100UL, 900UL, 9'000UL, 30'000UL}) {
        std::uint64_t sum = 0;
        for (std::size_t stream = 0; stream < count; ++stream) {
            EXPECT_EQ(stream_size(stream, count) % 4'096, 0U);
            sum += stream_size(stream, count);
        }
        EXPECT_EQ(sum, kTransferSize) << count;
    }
}

class DatagramFlow : public testing::Test {
protected:
    DatagramFlow() {
        sender_.is_sender = true;
        sender_.datagram_count = 4;
    }

    std::vector<std::byte> next() {
        std::vector<std::byte> datagram(sender_.datagram_size);
        EXPECT_TRUE(sender_.fill(datagram.data()));
        return datagram;
    }

    DatagramsJob sender_;
    DatagramsJob receiver_;
};

TEST_F(DatagramFlow, WhatWasSentIsRightAndEndsWithTheLastOne) {
    for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(receiver_.received(next()));
    }
    std::vector<std::byte> datagram(64);
    EXPECT_FALSE(sender_.fill(datagram.data()));
    write_last_datagram(datagram);
    EXPECT_FALSE(receiver_.received(datagram));
    EXPECT_EQ(receiver_.received_count, 4U);
    EXPECT_TRUE(receiver_.is_intact);
}

TEST_F(DatagramFlow, ALossIsNoError) {
    next();
    receiver_.received(next());
    next();
    receiver_.received(next());
    EXPECT_TRUE(receiver_.is_intact);
    EXPECT_EQ(receiver_.received_count, 2U);
}

TEST_F(DatagramFlow, ADoubledOrReorderedOrDamagedOneIsAnError) {
    const std::vector<std::byte> first = next();
    DatagramsJob doubled;
    doubled.received(first);
    doubled.received(first);
    EXPECT_FALSE(doubled.is_intact);
    const std::vector<std::byte> second = next();
    DatagramsJob reordered;
    reordered.received(second);
    reordered.received(first);
    EXPECT_FALSE(reordered.is_intact);
    std::vector<std::byte> damaged = next();
    damaged.back() ^= std::byte{1};
    receiver_.received(damaged);
    EXPECT_FALSE(receiver_.is_intact);
    DatagramsJob cut;
    cut.received(std::span(first).first(63));
    EXPECT_FALSE(cut.is_intact);
}

}  // namespace
}  // namespace berth::bench
