// SPDX-License-Identifier: Apache-2.0
#include "src/tls/cipher_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

namespace berth::internal {
namespace {

constexpr std::size_t kChunk = CipherChunkPool::kChunkSize;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string content(const CipherQueue& queue) {
    std::array<iovec, CipherQueue::kChunkLimit> pieces;
    const std::size_t count = queue.gather(pieces);
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        text.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    }
    return text;
}

TEST(CipherQueue, GivesBackWhatWasAppendedInOrder) {
    CipherChunkPool pool;
    CipherQueue queue(pool);
    EXPECT_TRUE(queue.is_empty());
    EXPECT_TRUE(queue.append(bytes_of("one ")));
    EXPECT_TRUE(queue.append(bytes_of("two")));
    EXPECT_EQ(queue.size(), 7);
    EXPECT_EQ(content(queue), "one two");
    queue.consume(2);
    EXPECT_EQ(content(queue), "e two");
    queue.consume(5);
    EXPECT_TRUE(queue.is_empty());
    EXPECT_EQ(content(queue), "");
}

TEST(CipherQueue, EmptyOneHoldsNoMemory) {
    CipherChunkPool pool;
    CipherQueue queue(pool);
    EXPECT_TRUE(queue.append(bytes_of(std::string(3 * kChunk, 'x'))));
    EXPECT_EQ(pool.lent_count(), 3);
    queue.consume(kChunk);
    EXPECT_EQ(pool.lent_count(), 2);
    queue.consume(2 * kChunk);
    EXPECT_EQ(pool.lent_count(), 0);
    EXPECT_EQ(pool.idle_count(), 3);
}

TEST(CipherQueue, PiecesArePageAlignedAndStay) {
    CipherChunkPool pool;
    CipherQueue queue(pool);
    EXPECT_TRUE(queue.append(bytes_of(std::string(kChunk + 100, 'x'))));
    std::array<iovec, 4> before{};
    ASSERT_EQ(queue.gather(before), 2);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(before[0].iov_base) % 4096, 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(before[1].iov_base) % 4096, 0);
    EXPECT_TRUE(queue.append(bytes_of(std::string(2 * kChunk, 'y'))));
    std::array<iovec, 4> after{};
    ASSERT_EQ(queue.gather(after), 4);
    EXPECT_EQ(before[0].iov_base, after[0].iov_base);
    EXPECT_EQ(before[1].iov_base, after[1].iov_base);
    EXPECT_EQ(after[1].iov_len, kChunk);
}

TEST(CipherQueue, FewPiecesAreTheFirstOnes) {
    CipherChunkPool pool;
    CipherQueue queue(pool);
    EXPECT_TRUE(queue.append(bytes_of(std::string(3 * kChunk, 'x'))));
    std::array<iovec, 2> pieces{};
    EXPECT_EQ(queue.gather(pieces), 2);
    EXPECT_EQ(queue.gather({}), 0);
}

TEST(CipherQueue, TellsWhatHasNoRoom) {
    CipherChunkPool pool;
    CipherQueue queue(pool);
    EXPECT_TRUE(queue.has_room(CipherQueue::kCapacity));
    EXPECT_FALSE(queue.has_room(CipherQueue::kCapacity + 1));
    EXPECT_TRUE(queue.append(bytes_of(std::string(CipherQueue::kCapacity - 1, 'x'))));
    EXPECT_TRUE(queue.has_room(1));
    EXPECT_FALSE(queue.has_room(2));
    // Room comes back chunk by chunk.
    queue.consume(kChunk - 1);
    EXPECT_FALSE(queue.has_room(2));
    queue.consume(1);
    EXPECT_TRUE(queue.has_room(kChunk + 1));
}

TEST(CipherQueue, BehavesLikeAString) {
    const std::uint32_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    CipherChunkPool pool(4);
    CipherQueue queue(pool);
    std::string model;
    for (int i = 0; i < 3000; ++i) {
        const std::size_t size = random() % (random() % 2 == 0 ? 100 : 40'000);
        if (random() % 2 == 0 && queue.has_room(size)) {
            const std::string text(size, static_cast<char>('a' + random() % 26));
            ASSERT_TRUE(queue.append(bytes_of(text)));
            model += text;
        } else {
            const std::size_t consumed = std::min(size, model.size());
            queue.consume(consumed);
            model.erase(0, consumed);
        }
        ASSERT_EQ(queue.size(), model.size());
        ASSERT_TRUE(content(queue) == model);
    }
    EXPECT_LE(pool.idle_count(), 4);
}

TEST(CipherQueue, GivesItsChunksBackWhenItEnds) {
    CipherChunkPool pool;
    {
        CipherQueue queue(pool);
        EXPECT_TRUE(queue.append(bytes_of(std::string(2 * kChunk, 'x'))));
    }
    EXPECT_EQ(pool.lent_count(), 0);
}

TEST(CipherChunkPool, KeepsOnlySoManyIdleChunks) {
    CipherChunkPool pool(2);
    std::array<std::byte*, 3> chunks{pool.acquire(), pool.acquire(), pool.acquire()};
    EXPECT_EQ(pool.lent_count(), 3);
    for (std::byte* chunk : chunks) pool.release(chunk);
    EXPECT_EQ(pool.lent_count(), 0);
    EXPECT_EQ(pool.idle_count(), 2);
}

}  // namespace
}  // namespace berth::internal
