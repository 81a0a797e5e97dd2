// SPDX-License-Identifier: Apache-2.0
#include "src/loop/post_memory.h"

#include <berth/loop.h>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace berth::internal {
namespace {

TEST(PostMemory, WhatWasGivenBackIsTakenAgain) {
    PostMemory memory;
    std::set<void*> first;
    for (int i = 0; i < 100; ++i) {
        first.insert(memory.take());
    }
    EXPECT_EQ(first.size(), 100U);
    for (void* block : first) {
        memory.give_back(block);
    }
    memory.publish();
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(first.contains(memory.take()));
    }
    for (void* block : first) {
        memory.give_back(block);
    }
}

TEST(PostMemory, BlocksGoFromOneThreadToAnother) {
    PostMemory memory;
    void* block = memory.take();
    memory.give_back(block);
    memory.publish();
    void* taken = nullptr;
    std::thread([&] { taken = memory.take(); }).join();
    EXPECT_EQ(taken, block);
    memory.give_back(taken);
}

TEST(PostMemory, AThreadThatEndsFreesItsBlocks) {
    PostMemory memory;
    std::array<void*, 2> blocks = {memory.take(), memory.take()};
    for (void* block : blocks) {
        memory.give_back(block);
    }
    memory.publish();
    void* taken = nullptr;
    std::thread([&] { taken = memory.take(); }).join();
    // The other one has gone with its thread; the leak checker would tell.
    memory.give_back(taken);
}

TEST(LoopPost, CallablesOfAnySizeRunOnceInTheirOrder) {
    constexpr int kCount = 20'000;
    Loop loop = Loop::create().value();
    std::vector<int> seen;
    const auto shared = std::make_shared<int>(0);
    std::thread poster([&] {
        for (int i = 0; i < kCount; ++i) {
            if (i % 3 == 0) {
                std::array<int, 100> large{};
                large[99] = i;
                loop.post([&seen, large] { seen.push_back(large[99]); });
            } else {
                loop.post([&seen, shared, i] { seen.push_back(i); });
            }
        }
        loop.post([&loop] { loop.stop(); });
    });
    EXPECT_TRUE(loop.run_until(kNoDeadline).has_value());
    poster.join();
    ASSERT_EQ(seen.size(), std::size_t{kCount});
    for (int i = 0; i < kCount; ++i) {
        ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
    }
    EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace
}  // namespace berth::internal
