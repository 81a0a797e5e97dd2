// SPDX-License-Identifier: Apache-2.0
#include "src/tls/cipher_queue.h"

#include "src/base/assert.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace berth::internal {
namespace {

constexpr std::size_t kPageSize = 4096;

}  // namespace

CipherChunkPool::~CipherChunkPool() {
    BERTH_ASSERT(lent_count_ == 0);
    while (idle_ != nullptr) {
        std::free(std::exchange(idle_, idle_->next));
    }
}

std::byte* CipherChunkPool::acquire() noexcept {
    void* memory = nullptr;
    if (idle_ != nullptr) {
        memory = std::exchange(idle_, idle_->next);
        --idle_count_;
    } else {
        memory = std::aligned_alloc(kPageSize, kChunkSize);
    }
    lent_count_ += memory != nullptr ? 1 : 0;
    return static_cast<std::byte*>(memory);
}

void CipherChunkPool::release(std::byte* chunk) noexcept {
    BERTH_ASSERT(lent_count_ > 0);
    --lent_count_;
    if (idle_count_ >= idle_limit_) {
        std::free(chunk);
        return;
    }
    idle_ = new (chunk) IdleChunk{idle_};
    ++idle_count_;
}

CipherQueue::~CipherQueue() {
    while (count_ > 0) {
        drop_first();
    }
}

bool CipherQueue::append(std::span<const std::byte> data) noexcept {
    BERTH_ASSERT(has_room(data.size()));
    if (data.size() > tail_room() && !reserve(data.size() - tail_room())) {
        return false;
    }
    size_ += data.size();
    while (!data.empty()) {
        if (tail_room() == 0) {
            ++count_;
            tail_ = 0;
        }
        const std::size_t size = std::min(data.size(), tail_room());
        std::memcpy(chunk(count_ - 1) + tail_, data.data(), size);
        tail_ += size;
        data = data.subspan(size);
    }
    return true;
}

// Chunks for `size` more bytes stand behind the last one afterwards, or none.
bool CipherQueue::reserve(std::size_t size) noexcept {
    const std::size_t needed =
        (size + CipherChunkPool::kChunkSize - 1) / CipherChunkPool::kChunkSize;
    for (unsigned i = count_; i < count_ + needed; ++i) {
        chunk(i) = pool_->acquire();
        if (chunk(i) == nullptr) {
            while (i > count_) pool_->release(chunk(--i));
            return false;
        }
    }
    return true;
}

std::size_t CipherQueue::gather(std::span<iovec> pieces) const noexcept {
    const auto piece_count = static_cast<unsigned>(std::min<std::size_t>(count_, pieces.size()));
    for (unsigned i = 0; i < piece_count; ++i) {
        pieces[i] = {chunk(i) + begin_of(i), end_of(i) - begin_of(i)};
    }
    return piece_count;
}

void CipherQueue::consume(std::size_t size) noexcept {
    BERTH_ASSERT(size <= size_);
    size_ -= size;
    while (size > 0) {
        const std::size_t step = std::min(size, end_of(0) - head_);
        head_ += step;
        size -= step;
        if (head_ == end_of(0)) {
            drop_first();
        }
    }
}

void CipherQueue::drop_first() noexcept {
    pool_->release(chunk(0));
    first_ = (first_ + 1) % kChunkLimit;
    --count_;
    head_ = 0;
}

}  // namespace berth::internal
