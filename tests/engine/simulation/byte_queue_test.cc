// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/byte_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace berth::internal::simulated {
namespace {

std::string front_text(const ByteQueue& queue, std::size_t count) {
    const auto bytes = queue.front(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append_text(ByteQueue& queue, std::string_view text) {
    queue.append(std::as_bytes(std::span(text)));
}

TEST(ByteQueue, GivesBackWhatCameInOrder) {
    MemoryBudget budget(100);
    ByteQueue queue(budget);
    append_text(queue, "abcdef");
    queue.drop(4);
    append_text(queue, "ghij");
    EXPECT_EQ(front_text(queue, queue.size()), "efghij");
    queue.drop(2);
    append_text(queue, "k");
    EXPECT_EQ(front_text(queue, queue.size()), "ghijk");
    queue.clear();
    EXPECT_TRUE(queue.is_empty());
}

TEST(MemoryBudget, CountsWhatAllQueuesHold) {
    MemoryBudget budget(100);
    {
        ByteQueue first(budget);
        ByteQueue second(budget);
        append_text(first, "12345");
        append_text(second, "123");
        EXPECT_EQ(budget.used(), 8U);
        EXPECT_TRUE(budget.has_room_for(92));
        EXPECT_FALSE(budget.has_room_for(93));
        first.drop(2);
        EXPECT_EQ(budget.used(), 6U);
    }
    EXPECT_EQ(budget.used(), 0U);
}

TEST(MemoryCharge, NeverTakesMoreThanThereIs) {
    MemoryBudget budget(10);
    MemoryCharge first(budget, 8);
    {
        const MemoryCharge second(budget, 8);
        EXPECT_EQ(budget.used(), 10U);
    }
    EXPECT_EQ(budget.used(), 8U);
    MemoryCharge moved = std::move(first);
    EXPECT_EQ(budget.used(), 8U);
    moved.resize(1);
    EXPECT_EQ(budget.used(), 1U);
}

}  // namespace
}  // namespace berth::internal::simulated
