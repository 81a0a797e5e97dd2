// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/destination_pool.h"

#include <cstring>

namespace berth::internal {
namespace {

// The ports of `range` that lie in word `index`.
std::uint64_t ports_of_range(PortRange range, unsigned index) noexcept {
    const unsigned first = index * 64;
    if (range.last < first || range.first > first + 63) {
        return 0;
    }
    std::uint64_t ports = ~std::uint64_t{0};
    if (range.first > first) ports &= ~std::uint64_t{0} << (range.first - first);
    if (range.last < first + 63) ports &= ~std::uint64_t{0} >> (first + 63 - range.last);
    return ports;
}

DestinationKey key_of(const DestinationSlot& slot) noexcept {
    DestinationKey key;
    for (unsigned i = 0; i < key.addresses.size(); ++i) {
        key.addresses[i] = slot.key[i].load(std::memory_order_relaxed);
    }
    key.rest = slot.key[4].load(std::memory_order_relaxed);
    return key;
}

// Lets `ports` be drawn again. Returns how many there are.
unsigned reuse_all(DestinationSlot& slot, PortBits& ports) noexcept {
    unsigned count = 0;
    for (unsigned i = 0; i < kWordCount; ++i) {
        if (ports[i].load(std::memory_order_relaxed) != 0) {
            const std::uint64_t taken = ports[i].exchange(0, std::memory_order_acq_rel);
            slot.recycled[i].fetch_or(taken, std::memory_order_acq_rel);
            count += slot.unused.release_word(i, taken);
        }
    }
    return count;
}

}  // namespace

DestinationKey DestinationKey::of(const Address& remote, const Address& local) noexcept {
    DestinationKey key;
    const auto remote_bytes = remote.bytes();
    const auto local_bytes = local.bytes();
    std::memcpy(&key.addresses[0], remote_bytes.data(), remote_bytes.size());
    std::memcpy(&key.addresses[2], local_bytes.data(), local_bytes.size());
    key.rest = static_cast<std::uint64_t>(remote.scope_id()) << 32 |
               static_cast<std::uint64_t>(remote.port()) << 8 |
               (static_cast<std::uint64_t>(remote.family()) + 1);
    return key;
}

bool DestinationSlot::claim(std::uint16_t port) noexcept {
    if (!unused.claim(port)) {
        return false;
    }
    fresh[port / 64].fetch_or(bit_of(port), std::memory_order_acq_rel);
    return true;
}

void DestinationSlot::note_closed(std::uint16_t port) noexcept {
    closed[port / 64].fetch_or(bit_of(port), std::memory_order_acq_rel);
}

bool DestinationSlot::note_refused(std::uint16_t port) noexcept {
    const std::uint64_t bit = bit_of(port);
    if ((recycled[port / 64].fetch_and(~bit, std::memory_order_acq_rel) & bit) == 0) {
        return false;
    }
    waiting[port / 64].fetch_or(bit, std::memory_order_acq_rel);
    return true;
}

unsigned DestinationSlot::reuse_closed(std::uint64_t now_ms) noexcept {
    constexpr std::uint64_t kTurnMs = 500;
    const unsigned count = reuse_all(*this, closed);
    std::uint64_t next = next_turn_ms.load(std::memory_order_relaxed);
    if (count > 0 || now_ms < next ||
        !next_turn_ms.compare_exchange_strong(next, now_ms + kTurnMs)) {
        return count;
    }
    return reuse_all(*this, waiting);
}

DestinationHandle DestinationPool::find_or_make(const DestinationKey& key,
                                                PortRange range) noexcept {
    const std::uint64_t mixed = (key.addresses[0] ^ key.addresses[1] * 3 ^ key.addresses[2] * 5 ^
                                 key.addresses[3] * 7 ^ key.rest * 11) *
                                0x9e37'79b9'7f4a'7c15;
    const auto start = static_cast<unsigned>(mixed >> 40);
    DestinationHandle empty;
    for (unsigned i = 0; i < kSlotCount; ++i) {
        const unsigned index = (start + i) % kSlotCount;
        const std::uint32_t state = slots_[index].state.load(std::memory_order_acquire);
        if (stage_of(state) == Stage::ready && key_of(slots_[index]) == key) {
            return handle_of(index, state);
        }
        if (stage_of(state) == Stage::empty && !empty) {
            empty = handle_of(index, state);
            // A slot that was never used ends the search: nothing lies behind it.
            if (generation_of(state) == 0) break;
        }
    }
    if (!empty) {
        return {};
    }
    DestinationSlot& slot = slots_[empty.index];
    const std::uint32_t seen = slot.state.load(std::memory_order_relaxed);
    if (stage_of(seen) != Stage::empty || !make(slot, seen, key, range)) {
        return {};
    }
    return handle_of(empty.index, slot.state.load(std::memory_order_relaxed));
}

bool DestinationPool::make(DestinationSlot& slot, std::uint32_t seen, const DestinationKey& key,
                           PortRange range) noexcept {
    const std::uint32_t generation = generation_of(seen) + 1;
    if (!slot.state.compare_exchange_strong(seen, make_state(generation, Stage::being_made),
                                            std::memory_order_acq_rel)) {
        return false;
    }
    for (unsigned i = 0; i < key.addresses.size(); ++i) {
        slot.key[i].store(key.addresses[i], std::memory_order_relaxed);
    }
    slot.key[4].store(key.rest, std::memory_order_relaxed);
    for (unsigned i = 0; i < kWordCount; ++i) {
        const std::uint64_t wanted = ports_of_range(range, i);
        slot.closed[i].store(0, std::memory_order_relaxed);
        slot.waiting[i].store(0, std::memory_order_relaxed);
        slot.recycled[i].store(0, std::memory_order_relaxed);
        slot.fresh[i].store(0, std::memory_order_relaxed);
        slot.unused.claim_word(i, ~wanted);
        slot.unused.release_word(i, wanted);
    }
    slot.next_recheck_ms.store(0, std::memory_order_relaxed);
    slot.next_turn_ms.store(0, std::memory_order_relaxed);
    slot.state.store(make_state(generation, Stage::ready), std::memory_order_release);
    return true;
}

DestinationSlot* DestinationPool::get(DestinationHandle handle) noexcept {
    if (handle.index >= kSlotCount) {
        return nullptr;
    }
    DestinationSlot& slot = slots_[handle.index];
    const std::uint32_t state = slot.state.load(std::memory_order_acquire);
    const bool is_same = stage_of(state) == Stage::ready &&
                         static_cast<std::uint16_t>(generation_of(state)) == handle.generation;
    return is_same ? &slot : nullptr;
}

bool DestinationPool::begin_refresh(unsigned index, PortRange range, Snapshot& snapshot) noexcept {
    DestinationSlot& slot = slots_[index];
    const std::uint32_t state = slot.state.load(std::memory_order_acquire);
    if (stage_of(state) != Stage::ready) {
        return false;
    }
    snapshot.handle = handle_of(index, state);
    snapshot.key = key_of(slot);
    for (unsigned i = 0; i < kWordCount; ++i) {
        snapshot.used[i] = ports_of_range(range, i) & ~slot.unused.word(i);
        slot.fresh[i].store(0, std::memory_order_release);
    }
    return true;
}

void DestinationPool::end_refresh(const Snapshot& snapshot, const KernelPorts& in_kernel) noexcept {
    DestinationSlot* slot = get(snapshot.handle);
    if (slot == nullptr) {
        return;
    }
    std::uint64_t still_used = 0;
    for (unsigned i = 0; i < kWordCount; ++i) {
        const std::uint64_t connected = in_kernel.connected[i];
        const std::uint64_t waiting = in_kernel.waiting[i] & ~connected;
        const std::uint64_t fresh = slot->fresh[i].load(std::memory_order_acquire);
        const std::uint64_t gone = snapshot.used[i] & ~connected & ~waiting & ~fresh;
        const std::uint64_t must_wait = snapshot.used[i] & waiting & ~fresh;
        slot->closed[i].fetch_and(~(gone | must_wait), std::memory_order_acq_rel);
        slot->waiting[i].fetch_and(~gone, std::memory_order_acq_rel);
        slot->recycled[i].fetch_and(~gone, std::memory_order_acq_rel);
        slot->unused.release_word(i, gone);
        slot->unused.claim_word(i, connected & slot->unused.word(i));
        slot->waiting[i].fetch_or(must_wait, std::memory_order_acq_rel);
        still_used |= (snapshot.used[i] & ~gone) | connected | fresh;
    }
    if (still_used == 0) {
        std::uint32_t state = slot->state.load(std::memory_order_relaxed);
        if (stage_of(state) == Stage::ready &&
            static_cast<std::uint16_t>(generation_of(state)) == snapshot.handle.generation) {
            slot->state.compare_exchange_strong(
                state, make_state(generation_of(state), Stage::empty), std::memory_order_acq_rel);
        }
    }
}

}  // namespace berth::internal
