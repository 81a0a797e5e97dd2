// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory that sockets receive into and that is lent to users: small buffers for messages,
// large ones for streams that move much and for datagrams, which must not be cut. Nothing is
// allocated before somebody asks to receive by lending.

#include "src/engine/io_uring/buffer_group.h"

#include <berth/lent.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::internal {

enum class BufferKind : std::uint8_t { small, large };

/// What was received on one socket and nobody has asked for yet, first in, first out.
struct BufferQueue {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint32_t offset = 0;  // bytes of the first one that are used up
    std::uint32_t count = 0;

    bool is_empty() const noexcept { return count == 0; }
};

struct BufferPoolSizes {
    std::uint32_t first_small = 256;
    std::uint32_t most_small_target = 8 * 1024;
    std::uint32_t most_small = 32 * 1024;
    std::uint32_t first_large = 4;
    std::uint32_t most_large_target = 32;
    std::uint32_t most_large = 512;
};

class BufferPool final : public Lender {
public:
    static constexpr std::uint32_t kSmallSize = 2 * 1024;
    static constexpr std::uint32_t kLargeSize = 64 * 1024;

    explicit BufferPool(const BufferPoolSizes& sizes) noexcept;

    BufferGroup& group(BufferKind kind) noexcept {
        return kind == BufferKind::small ? small_ : large_;
    }

    /// The kernel has received `size` bytes into `buffer`: they join `queue`.
    void append(BufferQueue& queue, BufferKind kind, std::uint32_t buffer,
                std::uint32_t size) noexcept;
    /// The kernel has named `buffer` in a completion that brought nothing.
    void discard(BufferKind kind, std::uint32_t buffer) noexcept;

    // Of a queue that is not empty.
    std::span<std::byte> front(const BufferQueue& queue) noexcept;
    Lent lend_front(BufferQueue& queue) noexcept;
    /// `size` bytes of the front are used up, all of it when that is how many there are.
    void use_front(BufferQueue& queue, std::size_t size) noexcept;
    void drop_front(BufferQueue& queue) noexcept;
    void clear(BufferQueue& queue) noexcept;

    void take_back(std::uint32_t id) noexcept override;

private:
    std::uint32_t unlink_front(BufferQueue& queue) noexcept;
    BufferGroup& group_of(std::uint32_t id) noexcept { return (id >> 16) == 0 ? small_ : large_; }

    BufferGroup small_;
    BufferGroup large_;
};

}  // namespace berth::internal
