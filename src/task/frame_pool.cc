// SPDX-License-Identifier: Apache-2.0
#include <berth/task.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

// Each thread keeps the frames it has freed, in lists by size. A frame is a piece of malloc()'s
// memory of its own, so it may be freed by, and then kept for, any thread.

#if defined(__SANITIZE_ADDRESS__)
#define BERTH_KEEPS_FRAMES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define BERTH_KEEPS_FRAMES 0
#endif
#endif
#ifndef BERTH_KEEPS_FRAMES
#define BERTH_KEEPS_FRAMES 1
#endif

namespace berth::internal {
namespace {

// Under AddressSanitizer every frame goes back at once, so that a late use of it is found.
constexpr bool kKeepsFrames = BERTH_KEEPS_FRAMES != 0;

// In steps of 32 bytes up to 4 KiB, then powers of two: what is larger holds a buffer.
constexpr std::size_t kStep = 32;
constexpr std::size_t kStepCount = 128;
constexpr std::size_t kClassCount = kStepCount + 6;
constexpr std::size_t kLargest = 256 * 1024;
constexpr std::size_t kMostKept = 1024 * 1024;  // bytes, of each class

constexpr std::size_t class_of(std::size_t size) noexcept {
    return size <= kStep * kStepCount
               ? (size - 1) / kStep
               : kStepCount + static_cast<std::size_t>(std::bit_width((size - 1) / kStep)) - 8;
}

constexpr std::size_t size_of(std::size_t index) noexcept {
    return index < kStepCount ? (index + 1) * kStep
                              : kStep * kStepCount << (index - kStepCount + 1);
}

static_assert(class_of(1) == 0 && size_of(0) == kStep);
static_assert(class_of(kStep * kStepCount) == kStepCount - 1);
static_assert(class_of(kStep * kStepCount + 1) == kStepCount && size_of(kStepCount) == 8 * 1024);
static_assert(class_of(kLargest) == kClassCount - 1 && size_of(kClassCount - 1) == kLargest);

struct FreeFrame {
    FreeFrame* next;
};

struct SizeClass {
    FreeFrame* first;
    std::size_t size;  // bytes kept
};

enum class Life : unsigned char { before, during, after };

// Without constructor and destructor, for these cost a check with each access.
struct FramePool {
    std::array<SizeClass, kClassCount> classes;
    Life life;
};

constinit thread_local FramePool pool{};

void give_everything_back() noexcept {
    pool.life = Life::after;
    for (SizeClass& frames : pool.classes) {
        while (FreeFrame* frame = frames.first) {
            frames.first = frame->next;
            std::free(frame);
        }
        frames.size = 0;
    }
}

struct AtThreadEnd {
    ~AtThreadEnd() { give_everything_back(); }
};

// True when the thread still lives long enough to keep anything.
bool is_alive() noexcept {
    if (pool.life == Life::before) {
        static thread_local const AtThreadEnd at_thread_end;
        static_cast<void>(&at_thread_end);
        pool.life = Life::during;
    }
    return pool.life == Life::during;
}

void* allocate(std::size_t size) noexcept {
    void* frame = std::malloc(size);
    if (frame == nullptr) {
        std::fprintf(stderr, "berth: out of memory for the %zu bytes of a task\n", size);
        std::abort();
    }
    return frame;
}

}  // namespace

void* allocate_frame(std::size_t size) noexcept {
    if (!kKeepsFrames || size > kLargest) {
        return allocate(size);
    }
    const std::size_t index = class_of(size);
    SizeClass& frames = pool.classes[index];
    FreeFrame* frame = frames.first;
    if (frame == nullptr) {
        return allocate(size_of(index));
    }
    frames.first = frame->next;
    frames.size -= size_of(index);
    return frame;
}

void free_frame(void* frame, std::size_t size) noexcept {
    if (!kKeepsFrames || size > kLargest) {
        std::free(frame);
        return;
    }
    const std::size_t index = class_of(size);
    SizeClass& frames = pool.classes[index];
    if (frames.size >= kMostKept || !is_alive()) {
        std::free(frame);
        return;
    }
    frames.first = ::new (frame) FreeFrame{frames.first};
    frames.size += size_of(index);
}

}  // namespace berth::internal
