// SPDX-License-Identifier: Apache-2.0
#pragma once

// A first-in-first-out list through the operations themselves. An operation is on one list at a
// time. With `previous` any of them can leave in constant time.

#include <berth/operation.h>

#include <cstddef>
#include <utility>

namespace berth::internal {

/// Fetches an operation, and the object of its owner that it usually lies in, into the cache. Of
/// thousands of connections few are in it when their turn comes, and each miss costs as much as a
/// tenth of a system call. Null does no harm.
inline void prefetch(const Operation* operation) noexcept {
    constexpr std::size_t kLine = 64;
    if (operation == nullptr) {
        return;
    }
    const auto* line = reinterpret_cast<const std::byte*>(operation);
    __builtin_prefetch(line, 1);
    __builtin_prefetch(line + kLine, 1);
    __builtin_prefetch(line + 2 * kLine, 1);
    __builtin_prefetch(line + 3 * kLine, 1);
}

class OperationList {
public:
    bool is_empty() const noexcept { return head_ == nullptr; }
    Operation* front() const noexcept { return head_; }

    void push_back(Operation& operation) noexcept {
        operation.next = nullptr;
        operation.previous = tail_;
        (tail_ != nullptr ? tail_->next : head_) = &operation;
        tail_ = &operation;
    }
    void push_front(Operation& operation) noexcept {
        operation.previous = nullptr;
        operation.next = head_;
        (head_ != nullptr ? head_->previous : tail_) = &operation;
        head_ = &operation;
    }
    void remove(Operation& operation) noexcept {
        (operation.previous != nullptr ? operation.previous->next : head_) = operation.next;
        (operation.next != nullptr ? operation.next->previous : tail_) = operation.previous;
    }
    Operation& pop_front() noexcept {
        Operation& first = *head_;
        remove(first);
        return first;
    }
    /// For an operation that is on this list or on another one: takes it off when it is here and
    /// at either end. False: it may be on the other, or amid this one.
    bool remove_if_end(Operation& operation) noexcept {
        if (head_ != &operation && tail_ != &operation) {
            return false;
        }
        remove(operation);
        return true;
    }
    /// Those of `other`, behind those of this list.
    void append(OperationList other) noexcept {
        if (other.is_empty()) {
            return;
        }
        other.head_->previous = tail_;
        (tail_ != nullptr ? tail_->next : head_) = other.head_;
        tail_ = other.tail_;
    }
    /// All of them; this list is empty afterwards.
    OperationList take_all() noexcept { return std::exchange(*this, OperationList()); }

private:
    Operation* head_ = nullptr;
    Operation* tail_ = nullptr;
};

}  // namespace berth::internal
