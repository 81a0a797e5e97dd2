// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory for callables that are posted. A block is taken by the thread that posts and is free again
// on the loop's: malloc() would lock the poster's heap for each. So the loop collects free blocks,
// and a thread that has none left takes all of them at once.
//
//   poster's own list ──▶ posted ──▶ run ──▶ collected ──▶ returned ──▶ a poster's own list
//                                            (loop only)   (one exchange)

#include <atomic>
#include <cstddef>

namespace berth::internal {

class PostMemory {
public:
    static constexpr std::size_t kSize = 128;  // bytes of a block
    static constexpr std::size_t kAlignment = 64;

    PostMemory() noexcept = default;
    PostMemory(const PostMemory&) = delete;
    PostMemory& operator=(const PostMemory&) = delete;
    ~PostMemory();

    /// Any thread. Throws std::bad_alloc.
    void* take();
    /// Loop thread only, as the next.
    void give_back(void* block) noexcept;
    /// Shows the posters what was given back.
    void publish() noexcept;

private:
    struct Block {
        Block* next;
    };
    struct ThreadList;

    /// What is collected beyond it is freed: a burst need not be kept.
    static constexpr unsigned kMostCollected = 1024;

    static Block* free_all(Block* first) noexcept;

    Block* collected_ = nullptr;
    unsigned collected_count_ = 0;
    alignas(64) std::atomic<Block*> returned_{nullptr};
};

}  // namespace berth::internal
