// SPDX-License-Identifier: Apache-2.0
#include "src/engine/io_uring/buffer_pool.h"

namespace berth::internal {
namespace {

// An id says which group (upper half) and which buffer of it.
std::uint32_t id_of(BufferKind kind, std::uint32_t buffer) noexcept {
    return static_cast<std::uint32_t>(kind) << 16 | buffer;
}

std::uint32_t buffer_of(std::uint32_t id) noexcept { return id & 0xffff; }

}  // namespace

BufferPool::BufferPool(const BufferPoolSizes& sizes) noexcept
    : small_({.group = 0,
              .buffer_size = kSmallSize,
              .first_target = sizes.first_small,
              .most_target = sizes.most_small_target,
              .most_buffers = sizes.most_small}),
      large_({.group = 1,
              .buffer_size = kLargeSize,
              .first_target = sizes.first_large,
              .most_target = sizes.most_large_target,
              .most_buffers = sizes.most_large}) {}

void BufferPool::append(BufferQueue& queue, BufferKind kind, std::uint32_t buffer,
                        std::uint32_t size) noexcept {
    BufferGroup& owner = group(kind);
    owner.take(buffer);
    owner.note(buffer) = {0, size};
    const std::uint32_t id = id_of(kind, buffer);
    if (queue.is_empty()) {
        queue.first = id;
    } else {
        group_of(queue.last).note(buffer_of(queue.last)).next = id;
    }
    queue.last = id;
    ++queue.count;
}

void BufferPool::discard(BufferKind kind, std::uint32_t buffer) noexcept {
    group(kind).take(buffer);
    group(kind).give_back(buffer);
}

std::span<std::byte> BufferPool::front(const BufferQueue& queue) noexcept {
    BufferGroup& owner = group_of(queue.first);
    const std::uint32_t buffer = buffer_of(queue.first);
    return std::span(owner.data(buffer), owner.note(buffer).size).subspan(queue.offset);
}

std::uint32_t BufferPool::unlink_front(BufferQueue& queue) noexcept {
    const std::uint32_t id = queue.first;
    queue.first = group_of(id).note(buffer_of(id)).next;
    queue.offset = 0;
    --queue.count;
    return id;
}

Lent BufferPool::lend_front(BufferQueue& queue) noexcept {
    const std::span<std::byte> bytes = front(queue);
    const std::uint32_t id = unlink_front(queue);
    return {*this, id, bytes.data(), static_cast<std::uint32_t>(bytes.size())};
}

void BufferPool::use_front(BufferQueue& queue, std::size_t size) noexcept {
    if (size == front(queue).size()) {
        drop_front(queue);
    } else {
        queue.offset += static_cast<std::uint32_t>(size);
    }
}

void BufferPool::drop_front(BufferQueue& queue) noexcept { take_back(unlink_front(queue)); }

void BufferPool::clear(BufferQueue& queue) noexcept {
    while (!queue.is_empty()) {
        drop_front(queue);
    }
}

void BufferPool::take_back(std::uint32_t id) noexcept { group_of(id).give_back(buffer_of(id)); }

}  // namespace berth::internal
