// SPDX-License-Identifier: Apache-2.0
#include "src/engine/lent_pool.h"

#include "src/base/assert.h"

#include <sys/mman.h>

namespace berth::internal {
namespace {

constexpr std::uint32_t kPageSize = 4096;

constexpr std::uint32_t page_after(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + kPageSize - 1) / kPageSize * kPageSize);
}

std::byte* map_chunk() noexcept {
    void* memory = ::mmap(nullptr, LentPool::kChunkSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

LentPool::~LentPool() {
    BERTH_ASSERT(lent_count_ == 0 && "a Lent outlives its loop: let it go before");
    for (const Chunk& chunk : chunks_) {
        ::munmap(chunk.memory, kChunkSize);
    }
}

bool LentPool::find_chunk() noexcept {
    if (!free_.empty()) {
        current_ = free_.back();
        free_.pop_back();
        return true;
    }
    std::byte* memory = map_chunk();
    if (memory == nullptr) {
        return false;
    }
    current_ = static_cast<std::uint32_t>(chunks_.size());
    chunks_.push_back({memory, 0, 0});
    // take_back() must not need memory.
    free_.reserve(chunks_.capacity());
    return true;
}

std::span<std::byte> LentPool::room() noexcept {
    if ((current_ == kNoChunk || chunks_[current_].used + kRoom > kChunkSize) && !find_chunk()) {
        current_ = kNoChunk;
        return {};
    }
    const Chunk& chunk = chunks_[current_];
    return {chunk.memory + chunk.used, kRoom};
}

Lent LentPool::lend(std::size_t size) noexcept {
    Chunk& chunk = chunks_[current_];
    std::byte* data = chunk.memory + chunk.used;
    chunk.used += page_after(size);
    ++chunk.lent_count;
    ++lent_count_;
    return {*this, current_, data, static_cast<std::uint32_t>(size)};
}

void LentPool::take_back(std::uint32_t id) noexcept {
    Chunk& chunk = chunks_[id];
    --lent_count_;
    if (--chunk.lent_count > 0) {
        return;
    }
    chunk.used = 0;
    if (id != current_) {
        free_.push_back(id);
    }
}

}  // namespace berth::internal
