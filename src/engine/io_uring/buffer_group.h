// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of one size that the kernel receives into: a ring of buffers that are shown to it, from
// which it takes the oldest whenever data arrives on any socket.
//
//            refill()               the kernel receives          lend
//   spare ────────────▶ in the ring ────────────────────▶ held ────────▶ held by the user
//     ▲ last in, first out      ▲                            │                │
//     └─────────────────────────┴────────── give_back() ─────┴────────────────┘
//
// How many are in the ring at the start of a turn is the *target*. As few as will do: the kernel
// uses them in turn, and what is used again soon is still in the processor's cache. The target of
// small buffers grows when they run out within a turn (each socket that finds none costs a new
// request), and shrinks when most of them lie idle.

#include "src/engine/io_uring/mapping.h"
#include "src/engine/io_uring/ring.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::internal {

/// All counts are powers of two. A buffer's number has 16 bits.
struct BufferGroupShape {
    std::uint16_t group = 0;
    std::uint32_t buffer_size = 0;   // bytes; whole pages hold whole buffers
    std::uint32_t first_target = 0;  // and how many buffers are made at once
    std::uint32_t most_target = 0;   // <= 32768, the size of the ring
    std::uint32_t most_buffers = 0;  // <= 65536; more than the target, for what is held
};

class BufferGroup {
public:
    explicit BufferGroup(const BufferGroupShape& shape) noexcept : shape_(shape) {}
    ~BufferGroup();
    BufferGroup(const BufferGroup&) = delete;
    BufferGroup& operator=(const BufferGroup&) = delete;

    /// Registers with `ring`, the first time. Answers 0 or -errno.
    int open(Ring& ring) noexcept;
    bool is_open() const noexcept { return !ring_memory_.is_empty(); }
    std::uint16_t group() const noexcept { return shape_.group; }
    std::uint32_t buffer_size() const noexcept { return shape_.buffer_size; }

    /// The kernel has received into `buffer`.
    void take(std::uint32_t buffer) noexcept;
    void give_back(std::uint32_t buffer) noexcept;
    std::byte* data(std::uint32_t buffer) const noexcept {
        const Chunk& chunk = chunks_[buffer / shape_.first_target];
        return chunk.memory.data() + std::size_t{buffer % shape_.first_target} * shape_.buffer_size;
    }

    /// What the owner of a held buffer notes with it: the next of a list, and how full it is.
    struct Note {
        std::uint32_t next = 0;
        std::uint32_t size = 0;
    };
    Note& note(std::uint32_t buffer) noexcept {
        return chunks_[buffer / shape_.first_target].notes[buffer % shape_.first_target];
    }

    /// Sockets have found the ring empty since the last refill().
    void note_shortage() noexcept { was_short_ = true; }
    /// Once a turn: fills the ring up to its target and shows the kernel what was given back.
    void refill() noexcept;

    /// What the kernel can take now.
    std::uint32_t available_count() const noexcept { return in_ring_; }
    /// Buffers that one socket may keep while nobody asks for its data: fewer when memory is
    /// scarce, so that sockets nobody reads from cannot take it all.
    std::uint32_t fair_share() const noexcept;
    std::uint32_t held_count() const noexcept { return held_; }
    std::uint32_t target() const noexcept { return target_; }

private:
    struct Chunk {
        Mapping memory;
        std::vector<Note> notes;
    };

    bool make_chunk() noexcept;
    void put_into_ring(std::uint32_t buffer) noexcept;
    void adapt_target() noexcept;

    io_uring_buf* entries() const noexcept {
        return reinterpret_cast<io_uring_buf*>(ring_memory_.data());
    }

    BufferGroupShape shape_;
    Mapping ring_memory_;
    std::vector<Chunk> chunks_;
    std::vector<std::uint32_t> spare_;
    std::uint32_t target_ = 0;
    std::uint32_t in_ring_ = 0;  // shown to the kernel, or about to be
    std::uint32_t held_ = 0;
    std::uint32_t taken_ = 0;       // by the kernel in this turn
    std::uint32_t most_taken_ = 0;  // in one turn, since the target was looked at
    std::uint32_t turn_count_ = 0;  // since the same
    std::uint16_t tail_ = 0;
    bool was_short_ = false;
};

}  // namespace berth::internal
