// SPDX-License-Identifier: Apache-2.0
#pragma once

// The sockets of an engine, by number: chunks of 1,024 slots that never move, reached through one
// array. A slot's generation goes up when it is freed, so a handle, or an event of the kernel that
// carries one, that outlived its socket is recognised. Slot is the engine's own type; it has a
// member `std::uint32_t generation` and `std::uint32_t next_free`, and is reset by assigning
// Slot().

#include <berth/operation.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>

namespace berth::internal {

template <class Slot>
class SlotTable {
public:
    static constexpr std::uint32_t kChunkSize = 1024;
    static constexpr std::uint32_t kMostSlots = 1U << 20;

    /// An invalid handle when there is no memory or the limit is reached.
    SlotHandle take() noexcept {
        if (first_free_ == SlotHandle::kNone && !grow()) {
            return {};
        }
        const std::uint32_t index = first_free_;
        Slot& slot = at(index);
        first_free_ = slot.next_free;
        slot.next_free = kTaken;
        ++used_count_;
        return {index, slot.generation};
    }

    void free(std::uint32_t index) noexcept {
        Slot& slot = at(index);
        const std::uint32_t generation = slot.generation + 1;
        slot = Slot();
        slot.generation = generation;
        slot.next_free = first_free_;
        first_free_ = index;
        --used_count_;
    }

    /// No handle finds the slot any more, but for find_retired(): its owner has still to let go.
    void retire(std::uint32_t index) noexcept { at(index).next_free = kRetired; }

    Slot& at(std::uint32_t index) noexcept {
        return chunks_[index / kChunkSize][index % kChunkSize];
    }
    /// Null when the socket is gone.
    Slot* find(SlotHandle handle) noexcept { return find_in(kTaken, handle); }
    Slot* find_retired(SlotHandle handle) noexcept { return find_in(kRetired, handle); }
    bool is_taken(std::uint32_t index) noexcept { return at(index).next_free == kTaken; }
    /// Slots there are, taken or free: every index is below it.
    std::uint32_t size() const noexcept { return chunk_count_ * kChunkSize; }
    std::uint32_t used_count() const noexcept { return used_count_; }

private:
    static constexpr std::uint32_t kTaken = SlotHandle::kNone - 1;
    static constexpr std::uint32_t kRetired = SlotHandle::kNone - 2;

    Slot* find_in(std::uint32_t state, SlotHandle handle) noexcept {
        if (handle.index >= size()) {
            return nullptr;
        }
        Slot& slot = at(handle.index);
        return slot.generation == handle.generation && slot.next_free == state ? &slot : nullptr;
    }

    bool grow() noexcept {
        if (size() >= kMostSlots) {
            return false;
        }
        std::unique_ptr<Slot[]> chunk(new (std::nothrow) Slot[kChunkSize]);
        if (chunk == nullptr) {
            return false;
        }
        const std::uint32_t first = size();
        for (std::uint32_t i = 0; i < kChunkSize; ++i) {
            chunk[i].next_free = i + 1 < kChunkSize ? first + i + 1 : SlotHandle::kNone;
        }
        chunks_[chunk_count_++] = std::move(chunk);
        first_free_ = first;
        return true;
    }

    std::array<std::unique_ptr<Slot[]>, kMostSlots / kChunkSize> chunks_;
    std::uint32_t chunk_count_ = 0;
    std::uint32_t first_free_ = SlotHandle::kNone;
    std::uint32_t used_count_ = 0;
};

}  // namespace berth::internal
