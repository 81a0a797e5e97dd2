// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/ring.h"

#include "src/engine/wait_time.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <thread>

namespace berth::internal {
namespace {

Ring make_ring(const RingSizes& sizes) { return Ring::create(sizes, {}).value(); }

void add_nop(Ring& ring, std::uint64_t user_data) {
    io_uring_sqe& entry = ring.next_entry();
    entry.opcode = IORING_OP_NOP;
    entry.user_data = user_data;
}

std::vector<std::uint64_t> drain(Ring& ring) {
    std::vector<std::uint64_t> seen;
    ring.drain([&seen](const io_uring_cqe& completion) { seen.push_back(completion.user_data); });
    return seen;
}

TEST(Ring, CompletesInTheOrderOfSubmission) {
    Ring ring = make_ring({8, 16});
    for (std::uint64_t i = 0; i < 8; ++i) {
        add_nop(ring, i);
        EXPECT_EQ(ring.last_position(), i);
    }
    EXPECT_EQ(ring.unsubmitted_count(), 8U);
    EXPECT_EQ(ring.enter(true, kNever), 0);
    EXPECT_EQ(ring.taken_position(), 8U);
    EXPECT_EQ(drain(ring), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_TRUE(drain(ring).empty());
}

TEST(Ring, EntriesBeyondItsSizeAreSentOff) {
    Ring ring = make_ring({4, 64});
    for (std::uint64_t i = 0; i < 50; ++i) {
        add_nop(ring, i);
        EXPECT_EQ(ring.last_position(), i);
    }
    EXPECT_EQ(ring.enter(false, 0), 0);
    EXPECT_EQ(drain(ring).size(), 50U);
    EXPECT_EQ(ring.submission_count(), 50U);
}

// The kernel keeps what does not fit, and brings it when there is room.
TEST(Ring, ACompletionQueueThatIsTooSmallLosesNothing) {
    Ring ring = make_ring({4, 8});
    for (std::uint64_t i = 0; i < 100; ++i) {
        add_nop(ring, i);
    }
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 200 && seen.size() < 100; ++i) {
        const int result = ring.enter(false, 0);
        EXPECT_TRUE(result == 0 || result == -EBUSY) << result;
        for (const std::uint64_t user_data : drain(ring)) {
            EXPECT_TRUE(seen.insert(user_data).second);
        }
    }
    EXPECT_EQ(seen.size(), 100U);
    EXPECT_FALSE(ring.has_overflow());
    EXPECT_FALSE(ring.has_backlog());
}

TEST(Ring, BelongsToTheThreadThatStartsIt) {
    Ring ring = make_ring({4, 8});
    add_nop(ring, 1);
    std::thread other([&ring] {
        EXPECT_EQ(ring.enter(true, kNever), 0);
        EXPECT_EQ(drain(ring), std::vector<std::uint64_t>{1});
    });
    other.join();
    EXPECT_EQ(ring.enter(false, 0), -EEXIST);
}

// What another thread's ring cannot send stays in the backlog instead of being lost.
TEST(Ring, WhatTheKernelDoesNotTakeWaits) {
    Ring ring = make_ring({4, 8});
    std::thread other([&ring] { EXPECT_EQ(ring.start(), 0); });
    other.join();
    for (std::uint64_t i = 0; i < 10; ++i) {
        add_nop(ring, i);
    }
    EXPECT_TRUE(ring.has_backlog());
    EXPECT_EQ(ring.unsubmitted_count(), 10U);
    EXPECT_EQ(ring.last_position(), 9U);
}

TEST(Ring, WaitsUntilADeadline) {
    Ring ring = make_ring({4, 8});
    const std::uint64_t deadline_ns = monotonic_now_ns() + 5'000'000;
    EXPECT_EQ(ring.enter(true, deadline_ns), -ETIME);
    EXPECT_GE(monotonic_now_ns(), deadline_ns);
}

// 16 rings can be registered with a thread; the others do without.
TEST(Ring, ManyRingsOfOneThreadWork) {
    std::vector<Ring> rings;
    for (int round = 0; round < 3; ++round) {
        for (std::uint64_t i = 0; i < 20; ++i) {
            rings.push_back(make_ring({4, 8}));
            add_nop(rings.back(), i);
            EXPECT_EQ(rings.back().enter(true, kNever), 0);
            EXPECT_EQ(drain(rings.back()), std::vector<std::uint64_t>{i});
        }
        rings.clear();
    }
}

}  // namespace
}  // namespace berth::internal
