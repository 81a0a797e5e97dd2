// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/buffer_group.h"

#include "src/base/assert.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace berth::internal {
namespace {

constexpr std::uint32_t kTurnsBetweenLooks = 1024;
// Of the free buffers, one socket may keep this part; at most as many as make 64 KiB of 2 KiB each.
constexpr std::uint32_t kShareOfFree = 64;
constexpr std::uint32_t kMostShare = 32;

}  // namespace

BufferGroup::~BufferGroup() {
    BERTH_ASSERT(held_ == 0 && "a Lent outlives its loop: let it go before");
}

int BufferGroup::open(Ring& ring) noexcept {
    if (is_open()) {
        return 0;
    }
    Mapping memory = Mapping::allocate(shape_.most_target * sizeof(io_uring_buf));
    if (memory.is_empty() || !make_chunk()) {
        return -ENOMEM;
    }
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uint64_t>(memory.data());
    registration.ring_entries = shape_.most_target;
    registration.bgid = shape_.group;
    const int result = ring.register_with(IORING_REGISTER_PBUF_RING, &registration, 1);
    if (result < 0) {
        return result;
    }
    ring_memory_ = std::move(memory);
    target_ = shape_.first_target;
    refill();
    return 0;
}

bool BufferGroup::make_chunk() noexcept {
    const std::uint32_t count = shape_.first_target;
    const auto first = static_cast<std::uint32_t>(chunks_.size()) * count;
    if (first >= shape_.most_buffers) {
        return false;
    }
    Mapping memory = Mapping::allocate(std::size_t{count} * shape_.buffer_size);
    if (memory.is_empty()) {
        return false;
    }
    chunks_.push_back({std::move(memory), std::vector<Note>(count)});
    // give_back() must not need memory.
    spare_.reserve(chunks_.size() * count);
    for (std::uint32_t i = count; i > 0; --i) {
        spare_.push_back(first + i - 1);
    }
    return true;
}

void BufferGroup::put_into_ring(std::uint32_t buffer) noexcept {
    // The tail that the kernel reads lies in a field of the first entry that entries do not use.
    io_uring_buf& entry = entries()[tail_ & (shape_.most_target - 1)];
    entry.addr = reinterpret_cast<std::uint64_t>(data(buffer));
    entry.len = shape_.buffer_size;
    entry.bid = static_cast<std::uint16_t>(buffer);
    ++tail_;
    ++in_ring_;
}

void BufferGroup::take(std::uint32_t buffer) noexcept {
    BERTH_ASSERT(in_ring_ > 0 && buffer < chunks_.size() * shape_.first_target);
    --in_ring_;
    ++held_;
    ++taken_;
}

void BufferGroup::give_back(std::uint32_t buffer) noexcept {
    --held_;
    if (in_ring_ < target_) {
        put_into_ring(buffer);
    } else {
        spare_.push_back(buffer);
    }
}

void BufferGroup::adapt_target() noexcept {
    if (was_short_) {
        target_ = std::min(target_ * 2, shape_.most_target);
        was_short_ = false;
        turn_count_ = 0;
    }
    most_taken_ = std::max(most_taken_, std::exchange(taken_, 0));
    if (++turn_count_ < kTurnsBetweenLooks) {
        return;
    }
    if (most_taken_ < target_ / 4) {
        target_ = std::max(target_ / 2, shape_.first_target);
    }
    turn_count_ = 0;
    most_taken_ = 0;
}

void BufferGroup::refill() noexcept {
    adapt_target();
    while (in_ring_ < target_ && (!spare_.empty() || make_chunk())) {
        const std::uint32_t buffer = spare_.back();
        spare_.pop_back();
        put_into_ring(buffer);
    }
    auto& shared_tail = reinterpret_cast<io_uring_buf_ring*>(ring_memory_.data())->tail;
    std::atomic_ref(shared_tail).store(tail_, std::memory_order_release);
}

std::uint32_t BufferGroup::fair_share() const noexcept {
    const std::uint32_t free_count = shape_.most_buffers - std::min(held_, shape_.most_buffers);
    return std::clamp(free_count / kShareOfFree, std::uint32_t{1}, kMostShare);
}

}  // namespace berth::internal
