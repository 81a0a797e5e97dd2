// SPDX-License-Identifier: Apache-2.0
#include "tests/task/task_test.h"

#include <berth/task.h>
#include <berth/when.h>

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace berth::internal {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
#else
constexpr bool kIsSanitized = false;
#endif

#define SKIP_WHERE_NOTHING_IS_KEPT()                                                     \
    if (kIsSanitized) {                                                                  \
        GTEST_SKIP() << "a sanitizer wants to see each frame go, and counts for itself"; \
    }                                                                                    \
    static_assert(true)

std::size_t bytes_in_use() { return ::mallinfo2().uordblks; }

TEST(FramePool, AFreedFrameIsUsedForTheNextOfItsSize) {
    SKIP_WHERE_NOTHING_IS_KEPT();
    void* first = allocate_frame(200);
    free_frame(first, 200);
    void* second = allocate_frame(220);  // the same 64-byte step
    EXPECT_EQ(second, first);
    void* third = allocate_frame(300);
    EXPECT_NE(third, first);
    free_frame(second, 220);
    free_frame(third, 300);
}

TEST(FramePool, FramesOfAllSizesAreWholeAndDistinct) {
    for (int round = 0; round < 2; ++round) {
        std::vector<std::pair<void*, std::size_t>> frames;
        for (std::size_t size = 1; size < 300'000; size += 1 + size / 8) {
            void* frame = allocate_frame(size);
            std::memset(frame, static_cast<int>(size % 251), size);
            frames.emplace_back(frame, size);
        }
        for (const auto& [frame, size] : frames) {
            const auto* bytes = static_cast<const unsigned char*>(frame);
            EXPECT_EQ(bytes[0], size % 251);
            EXPECT_EQ(bytes[size - 1], size % 251);
            free_frame(frame, size);
        }
    }
}

TEST(FramePool, AFrameMayBeFreedByAnotherThread) {
    std::vector<void*> frames;
    for (int i = 0; i < 100; ++i) {
        frames.push_back(allocate_frame(500));
    }
    std::thread other([&] {
        for (void* frame : frames) {
            free_frame(frame, 500);
        }
        void* again = allocate_frame(500);
        EXPECT_TRUE(kIsSanitized || again == frames.back());
        free_frame(again, 500);
    });
    other.join();
}

TEST(FramePool, AThreadGivesItsFramesBackWhenItEnds) {
    SKIP_WHERE_NOTHING_IS_KEPT();
    std::size_t kept = 0;
    const std::size_t before = bytes_in_use();
    std::thread other([&] {
        const std::size_t empty = bytes_in_use();
        std::array<void*, 200> frames{};
        for (void*& frame : frames) {
            frame = allocate_frame(4'000);
        }
        for (void* frame : frames) {
            free_frame(frame, 4'000);
        }
        kept = bytes_in_use() - empty;
    });
    other.join();
    EXPECT_GE(kept, 200U * 4'000);
    EXPECT_LT(bytes_in_use(), before + 100'000);
}

TEST(FramePool, KeepsNoMoreThanAMegabyteOfASize) {
    SKIP_WHERE_NOTHING_IS_KEPT();
    std::thread other([] {
        const std::size_t before = bytes_in_use();
        std::vector<void*> frames(2'000);
        for (void*& frame : frames) {
            frame = allocate_frame(4'000);
        }
        EXPECT_GT(bytes_in_use() - before, 8'000'000U);
        for (void* frame : frames) {
            free_frame(frame, 4'000);
        }
        EXPECT_LT(bytes_in_use() - before, 1'200'000U);
    });
    other.join();
}

// The frame is freed after the thread has given everything back.
TEST(FramePool, AFrameMayBeFreedWhenItsThreadEnds) {
    struct Late {
        void* frame = nullptr;
        ~Late() { free_frame(frame, 300); }
    };
    std::thread other([] {
        static thread_local Late late;
        late.frame = allocate_frame(300);
        // The pool's own end is registered after that of `late`, and so comes before it.
        free_frame(allocate_frame(300), 300);
    });
    other.join();
}

}  // namespace
}  // namespace berth::internal
