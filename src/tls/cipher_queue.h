// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ciphertext on its way out, in page-aligned chunks that never move: what a send that is in flight
// points to stays where it is while more is appended behind it.
//
//     first chunk                                      last chunk
//     [ consumed | pending ......... ] [ pending ... ] [ pending .... | room ]
//                ^ head                                                ^ tail
//
// A session with nothing to send holds no chunk; chunks come from a pool that the sessions of one
// loop share. One thread at a time for a pool and all its queues.

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

namespace berth::internal {

/// Page-aligned chunks of memory, kept for the next who needs one. Outlives what it lends.
class CipherChunkPool {
public:
    static constexpr std::size_t kChunkSize = 16 * 1024;

    /// Keeps at most `idle_limit` chunks that nobody uses.
    explicit CipherChunkPool(std::size_t idle_limit = 64) noexcept : idle_limit_(idle_limit) {}
    CipherChunkPool(const CipherChunkPool&) = delete;
    CipherChunkPool& operator=(const CipherChunkPool&) = delete;
    ~CipherChunkPool();

    /// Null when there is no memory.
    std::byte* acquire() noexcept;
    void release(std::byte* chunk) noexcept;

    std::size_t lent_count() const noexcept { return lent_count_; }
    std::size_t idle_count() const noexcept { return idle_count_; }

private:
    struct IdleChunk {
        IdleChunk* next;
    };

    IdleChunk* idle_ = nullptr;
    std::size_t idle_count_ = 0;
    std::size_t idle_limit_;
    std::size_t lent_count_ = 0;
};

class CipherQueue {
public:
    static constexpr unsigned kChunkLimit = 16;
    /// At least this much fits into an empty queue, and never more.
    static constexpr std::size_t kCapacity = kChunkLimit * CipherChunkPool::kChunkSize;

    explicit CipherQueue(CipherChunkPool& pool) noexcept : pool_(&pool) {}
    CipherQueue(const CipherQueue&) = delete;
    CipherQueue& operator=(const CipherQueue&) = delete;
    ~CipherQueue();

    bool has_room(std::size_t size) const noexcept {
        return size <= tail_room() + (kChunkLimit - count_) * CipherChunkPool::kChunkSize;
    }
    /// All of `data`, for which there is room, or nothing: false when there is no memory.
    bool append(std::span<const std::byte> data) noexcept;

    std::size_t size() const noexcept { return size_; }
    bool is_empty() const noexcept { return size_ == 0; }
    /// The pieces in order, as many as `pieces` has room for; returns how many. They stay valid
    /// until they are consumed.
    std::size_t gather(std::span<iovec> pieces) const noexcept;
    /// `size` bytes at the front are sent.
    void consume(std::size_t size) noexcept;

private:
    std::byte*& chunk(unsigned index) noexcept { return chunks_[(first_ + index) % kChunkLimit]; }
    std::byte* chunk(unsigned index) const noexcept {
        return chunks_[(first_ + index) % kChunkLimit];
    }
    std::size_t begin_of(unsigned index) const noexcept { return index == 0 ? head_ : 0; }
    std::size_t end_of(unsigned index) const noexcept {
        return index + 1 == count_ ? tail_ : CipherChunkPool::kChunkSize;
    }
    std::size_t tail_room() const noexcept {
        return count_ == 0 ? 0 : CipherChunkPool::kChunkSize - tail_;
    }
    bool reserve(std::size_t size) noexcept;
    void drop_first() noexcept;

    CipherChunkPool* pool_;
    std::array<std::byte*, kChunkLimit> chunks_{};  // a ring from first_ on
    unsigned first_ = 0;
    unsigned count_ = 0;
    std::size_t head_ = 0;
    std::size_t tail_ = 0;
    std::size_t size_ = 0;
};

}  // namespace berth::internal
