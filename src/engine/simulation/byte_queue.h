// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the simulated kernel keeps of its users' data, and the limit on how much of it.

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace berth::internal::simulated {

using Bytes = std::vector<std::byte>;

/// How many bytes all queues together hold and may hold.
class MemoryBudget {
public:
    explicit MemoryBudget(std::size_t limit) noexcept : limit_(limit) {}

    bool has_room_for(std::size_t size) const noexcept { return size <= limit_ - used_; }
    std::size_t used() const noexcept { return used_; }

private:
    friend class MemoryCharge;

    std::size_t limit_;
    std::size_t used_ = 0;
};

/// A part of the budget, given back when it goes. What a caller has not checked may exceed the
/// budget; then nothing more is charged than was left.
class MemoryCharge {
public:
    explicit MemoryCharge(MemoryBudget& budget, std::size_t size = 0) noexcept : budget_(&budget) {
        resize(size);
    }
    MemoryCharge(MemoryCharge&& other) noexcept
        : budget_(other.budget_), size_(std::exchange(other.size_, 0)) {}
    MemoryCharge& operator=(MemoryCharge&& other) noexcept {
        resize(0);
        budget_ = other.budget_;
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    MemoryCharge(const MemoryCharge&) = delete;
    MemoryCharge& operator=(const MemoryCharge&) = delete;
    ~MemoryCharge() { resize(0); }

    void resize(std::size_t size) noexcept {
        budget_->used_ -= size_;
        size_ = budget_->has_room_for(size) ? size : budget_->limit_ - budget_->used_;
        budget_->used_ += size_;
    }

private:
    MemoryBudget* budget_;
    std::size_t size_ = 0;
};

/// Bytes in the order they came.
class ByteQueue {
public:
    explicit ByteQueue(MemoryBudget& budget) noexcept : charge_(budget) {}

    std::size_t size() const noexcept { return bytes_.size() - head_; }
    bool is_empty() const noexcept { return size() == 0; }
    /// The first `count` bytes, `count` <= size(); valid until the next change.
    std::span<const std::byte> front(std::size_t count) const noexcept {
        return std::span(bytes_).subspan(head_, count);
    }
    /// Room for `count` bytes at the end, for the caller to fill in now.
    std::span<std::byte> extend(std::size_t count);
    void append(std::span<const std::byte> bytes);
    void drop(std::size_t count);
    void clear() { drop(size()); }

private:
    Bytes bytes_;
    std::size_t head_ = 0;
    MemoryCharge charge_;
};

}  // namespace berth::internal::simulated
