// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/buffer_group.h"

#include "src/engine/io_uring/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace berth::internal {
namespace {

constexpr BufferGroupShape kShape = {
    .group = 3, .buffer_size = 2048, .first_target = 4, .most_target = 16, .most_buffers = 32};

class IoUringBufferGroup : public testing::Test {
protected:
    void SetUp() override { ASSERT_EQ(buffers_.open(ring_), 0); }
    /// As if the kernel had used the first `count` buffers that it was shown, of `shown_` so far.
    void take(std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            buffers_.take(first + i);
        }
    }
    void give_back(std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            buffers_.give_back(first + i);
        }
    }

    Ring ring_ = Ring::create({4, 8}, {}).value();
    BufferGroup buffers_{kShape};
};

TEST_F(IoUringBufferGroup, ShowsItsTargetToTheKernel) {
    EXPECT_EQ(buffers_.available_count(), 4U);
    EXPECT_EQ(buffers_.open(ring_), 0);
    EXPECT_EQ(buffers_.available_count(), 4U);
}

TEST_F(IoUringBufferGroup, BuffersAreApartAndAligned) {
    std::set<std::uintptr_t> places;
    for (std::uint32_t i = 0; i < 4; ++i) {
        const auto place = reinterpret_cast<std::uintptr_t>(buffers_.data(i));
        EXPECT_EQ(place % 2048, 0U);
        EXPECT_TRUE(places.insert(place).second);
    }
}

TEST_F(IoUringBufferGroup, TakesWhatIsHeldOutOfAccount) {
    take(0, 3);
    EXPECT_EQ(buffers_.held_count(), 3U);
    EXPECT_EQ(buffers_.available_count(), 1U);
    buffers_.refill();
    EXPECT_EQ(buffers_.available_count(), 4U);
    give_back(0, 3);
    EXPECT_EQ(buffers_.held_count(), 0U);
    EXPECT_EQ(buffers_.available_count(), 4U);
}

TEST_F(IoUringBufferGroup, NeverHasMoreThanTheMost) {
    take(0, 4);
    for (std::uint32_t first = 4; first < 32; first += 4) {
        buffers_.refill();
        take(first, 4);
    }
    buffers_.refill();
    EXPECT_EQ(buffers_.available_count(), 0U);
    EXPECT_EQ(buffers_.held_count(), 32U);
    EXPECT_EQ(buffers_.fair_share(), 1U);
    buffers_.give_back(7);
    buffers_.refill();
    EXPECT_EQ(buffers_.available_count(), 1U);
    take(7, 1);
    give_back(0, 32);
}

TEST_F(IoUringBufferGroup, TheTargetGrowsWhenBuffersRunOut) {
    for (const std::uint32_t target : {8U, 16U, 16U}) {
        buffers_.note_shortage();
        buffers_.refill();
        EXPECT_EQ(buffers_.target(), target);
        EXPECT_EQ(buffers_.available_count(), target);
    }
}

TEST_F(IoUringBufferGroup, TheTargetShrinksWhenTheyLieIdle) {
    buffers_.note_shortage();
    buffers_.refill();
    buffers_.note_shortage();
    buffers_.refill();
    EXPECT_EQ(buffers_.target(), 16U);
    for (int i = 0; i < 5000; ++i) {
        buffers_.refill();
    }
    EXPECT_EQ(buffers_.target(), 4U);
    // Those that were shown remain so until they are used.
    EXPECT_EQ(buffers_.available_count(), 16U);
    take(0, 13);
    give_back(0, 13);
    buffers_.refill();
    EXPECT_EQ(buffers_.available_count(), 4U);
}

TEST(IoUringBufferPool, AQueueIsFirstInFirstOut) {
    Ring ring = Ring::create({4, 8}, {}).value();
    BufferPool pool({});
    ASSERT_EQ(pool.group(BufferKind::small).open(ring), 0);
    ASSERT_EQ(pool.group(BufferKind::large).open(ring), 0);
    BufferQueue queue;
    pool.append(queue, BufferKind::small, 5, 10);
    pool.append(queue, BufferKind::large, 2, 60'000);
    pool.append(queue, BufferKind::small, 6, 20);
    EXPECT_EQ(queue.count, 3U);
    pool.use_front(queue, 4);
    EXPECT_EQ(pool.front(queue).size(), 6U);
    EXPECT_EQ(pool.front(queue).data(), pool.group(BufferKind::small).data(5) + 4);
    {
        const Lent lent = pool.lend_front(queue);
        EXPECT_EQ(lent.size(), 6U);
    }
    EXPECT_EQ(pool.front(queue).size(), 60'000U);
    pool.drop_front(queue);
    EXPECT_EQ(pool.front(queue).data(), pool.group(BufferKind::small).data(6));
    pool.clear(queue);
    EXPECT_TRUE(queue.is_empty());
    EXPECT_EQ(pool.group(BufferKind::small).held_count(), 0U);
    EXPECT_EQ(pool.group(BufferKind::large).held_count(), 0U);
}

}  // namespace
}  // namespace berth::internal
