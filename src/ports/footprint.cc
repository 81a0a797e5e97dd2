// SPDX-License-Identifier: Apache-2.0
#include "src/ports/footprint.h"

#include <bit>
#include <cstring>
#include <optional>

namespace berth::internal {
namespace {

struct AddressKey {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::uint32_t scope_id = 0;
    std::uint32_t family = 0;

    static AddressKey of(const Address& address) noexcept {
        AddressKey key;
        const auto bytes = address.bytes();
        std::memcpy(&key.high, bytes.data(), sizeof key.high);
        std::memcpy(&key.low, bytes.data() + sizeof key.high, sizeof key.low);
        key.scope_id = address.scope_id();
        key.family = static_cast<std::uint32_t>(address.family()) + 1;
        return key;
    }

    bool matches(const AddressEntry& entry) const noexcept {
        return entry.state.load(std::memory_order_acquire) == AddressEntry::kReady &&
               entry.high.load(std::memory_order_relaxed) == high &&
               entry.low.load(std::memory_order_relaxed) == low &&
               entry.scope_id.load(std::memory_order_relaxed) == scope_id &&
               entry.family.load(std::memory_order_relaxed) == family;
    }

    void write_to(AddressEntry& entry) const noexcept {
        entry.high.store(high, std::memory_order_relaxed);
        entry.low.store(low, std::memory_order_relaxed);
        entry.scope_id.store(scope_id, std::memory_order_relaxed);
        entry.family.store(family, std::memory_order_relaxed);
        entry.state.store(AddressEntry::kReady, std::memory_order_release);
    }
};

std::optional<unsigned> find(const TableHeader& header, const AddressKey& key) noexcept {
    for (unsigned i = 0; i < kAddressSpaceCount; ++i) {
        if (key.matches(header.addresses[i])) {
            return kFirstAddressSpace + i;
        }
    }
    return std::nullopt;
}

// A place is free, or its writer died half-way.
bool reserve(AddressEntry& entry) noexcept {
    OwnerWord state = entry.state.load(std::memory_order_acquire);
    if (state == AddressEntry::kReady || (state != kNobody && is_alive(process_of(state)))) {
        return false;
    }
    return entry.state.compare_exchange_strong(state, own_word(), std::memory_order_acq_rel);
}

constexpr unsigned index_of(Family family) noexcept { return static_cast<unsigned>(family); }

}  // namespace

std::optional<unsigned> find_space_of_address(const TableHeader& header,
                                              const Address& address) noexcept {
    return find(header, AddressKey::of(address));
}

unsigned space_of_address(TableHeader& header, const Address& address) noexcept {
    const AddressKey key = AddressKey::of(address);
    if (const auto space = find(header, key)) {
        return *space;
    }
    for (unsigned i = 0; i < kAddressSpaceCount; ++i) {
        if (reserve(header.addresses[i])) {
            // Known to wildcard takers before anybody can claim in it.
            header.address_spaces[index_of(address.family())].fetch_or(
                space_bit(kFirstAddressSpace + i));
            key.write_to(header.addresses[i]);
            // Another may have made the same one meanwhile: everybody uses the first.
            return find(header, key).value_or(kFirstAddressSpace + i);
        }
    }
    return kOthersSpace + index_of(address.family());
}

Footprint footprint_of_bind(TableHeader& header, const Address& local,
                            bool is_dual_stack) noexcept {
    const bool is_v6 = local.family() == Family::ipv6;
    if (local.is_wildcard()) {
        return footprint_of_wildcard(header, !is_v6 || is_dual_stack, is_v6);
    }
    Footprint footprint;
    const unsigned space = space_of_address(header, local);
    footprint.takes[0] = space;
    footprint.checks = space_bit(kWildcardSpace + index_of(local.family())) |
                       space_bit(kConnectedSpace + index_of(local.family()));
    return footprint;
}

Footprint footprint_of_connection(Family family) noexcept {
    Footprint footprint;
    footprint.takes[0] = kConnectedSpace + index_of(family);
    footprint.checks = kAllSpaces & ~space_bit(kConnectedSpace + index_of(Family::ipv4)) &
                       ~space_bit(kConnectedSpace + index_of(Family::ipv6));
    return footprint;
}

}  // namespace berth::internal
