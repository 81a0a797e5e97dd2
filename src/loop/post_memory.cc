// SPDX-License-Identifier: Apache-2.0
#include "src/loop/post_memory.h"

#include <new>
#include <utility>

namespace berth::internal {

/// The blocks that a thread may use, for whichever loop.
struct PostMemory::ThreadList {
    Block* first = nullptr;

    ~ThreadList() { first = free_all(first); }
};

PostMemory::~PostMemory() {
    free_all(collected_);
    free_all(returned_.load(std::memory_order_acquire));
}

PostMemory::Block* PostMemory::free_all(Block* first) noexcept {
    while (first != nullptr) {
        ::operator delete(std::exchange(first, first->next), std::align_val_t(kAlignment));
    }
    return nullptr;
}

void* PostMemory::take() {
    static thread_local ThreadList own;
    if (own.first == nullptr && returned_.load(std::memory_order_relaxed) != nullptr) {
        own.first = returned_.exchange(nullptr, std::memory_order_acquire);
    }
    if (own.first == nullptr) {
        return ::operator new(kSize, std::align_val_t(kAlignment));
    }
    return std::exchange(own.first, own.first->next);
}

void PostMemory::give_back(void* block) noexcept {
    if (collected_count_ == kMostCollected) {
        ::operator delete(block, std::align_val_t(kAlignment));
        return;
    }
    ++collected_count_;
    collected_ = ::new (block) Block{collected_};
}

// Only this thread puts anything there: what is empty stays so until it is filled here.
void PostMemory::publish() noexcept {
    if (collected_ != nullptr && returned_.load(std::memory_order_relaxed) == nullptr) {
        collected_count_ = 0;
        returned_.store(std::exchange(collected_, nullptr), std::memory_order_release);
    }
}

}  // namespace berth::internal
