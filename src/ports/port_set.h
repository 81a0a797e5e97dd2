// SPDX-License-Identifier: Apache-2.0
#pragma once

// The free ports of one port space: a bitmap of 65,536 bits, set = free, which is the only truth.
// Claiming and releasing a port is one atomic operation on one word. Beside it stand 64 counters,
// one per 1,024 ports, which only guide the search: a crash may leave them wrong, and then the
// search takes a little longer and stays right.
//
//   words_   [ 64 bits ] × 1024                         8 KiB
//   counts_  [ 16 bits × 4 ] × 16                       128 bytes, lane i of word i/4 = group i
//
// The object is plain memory: it may lie in shared memory and be used by many processes.

#include "src/base/random.h"
#include "src/ports/maybe_port.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace berth::internal {

constexpr unsigned kPortCount = 65'536;
constexpr unsigned kWordCount = kPortCount / 64;

/// 65,536 bits, index = port. Atomic words; the object is plain memory.
using PortBits = std::array<std::atomic<std::uint64_t>, kWordCount>;

constexpr std::uint64_t bit_of(std::uint16_t port) noexcept {
    return std::uint64_t{1} << (port % 64);
}

inline bool test(const PortBits& bits, std::uint16_t port) noexcept {
    return (bits[port / 64].load(std::memory_order_seq_cst) & bit_of(port)) != 0;
}

class PortSet {
public:
    bool is_free(std::uint16_t port) const noexcept { return test(words_, port); }

    /// True for exactly one of any number of callers that race for a free port. Sequentially
    /// consistent with is_free(): of two who claim in two sets and then look into the other's set,
    /// at least one sees the other.
    bool claim(std::uint16_t port) noexcept {
        auto& word = words_[port / 64];
        const std::uint64_t bit = bit_of(port);
        if ((word.load(std::memory_order_relaxed) & bit) == 0 ||
            (word.fetch_and(~bit, std::memory_order_seq_cst) & bit) == 0) {
            return false;
        }
        add_to_count(port / kGroupPorts, -1);
        return true;
    }

    void release(std::uint16_t port) noexcept {
        const std::uint64_t bit = bit_of(port);
        if ((words_[port / 64].fetch_or(bit, std::memory_order_acq_rel) & bit) == 0) {
            add_to_count(port / kGroupPorts, 1);
        }
    }

    /// Sets the bits of `ports` in word `index`. Returns how many were not set before.
    unsigned release_word(unsigned index, std::uint64_t ports) noexcept;
    /// Clears the bits of `ports` in word `index`.
    void claim_word(unsigned index, std::uint64_t ports) noexcept;

    std::uint64_t word(unsigned index) const noexcept {
        return words_[index].load(std::memory_order_acquire);
    }

    /// A uniformly drawn free port, found by the counters; it may be gone when it is claimed.
    /// None when the counters know of none or mislead: then only the bitmap can tell.
    /// **Cost:** about 30 ns.
    MaybePort draw(RandomStream& random) const noexcept;

    /// By the counters: right unless somebody died in between or is at work now.
    std::uint32_t free_count_hint() const noexcept;
    /// By the bitmap. **Cost:** about 300 ns.
    std::uint32_t free_count() const noexcept;

    /// Makes the counters right again, except where somebody is at work just now.
    void recount() noexcept;

private:
    static constexpr unsigned kGroupPorts = 1'024;
    static constexpr unsigned kGroupWords = kGroupPorts / 64;
    static constexpr unsigned kLanes = 4;  // counters in one word of counts_
    static constexpr unsigned kLaneBits = 16;

    std::uint64_t count_word(unsigned index) const noexcept {
        return counts_[index].load(std::memory_order_relaxed);
    }
    void add_to_count(unsigned group, std::int64_t change) noexcept {
        counts_[group / kLanes].fetch_add(static_cast<std::uint64_t>(change)
                                              << (group % kLanes * kLaneBits),
                                          std::memory_order_relaxed);
    }

    alignas(64) PortBits words_;
    alignas(64) std::array<std::atomic<std::uint64_t>, kPortCount / kGroupPorts / kLanes> counts_;
};

/// The index of the `rank`-th set bit (0 = lowest) among `count` words at `words`, or nullopt when
/// fewer are set. **Cost:** about 1 ns per word.
std::optional<unsigned> select_bit(const std::uint64_t* words, unsigned count,
                                   std::uint32_t rank) noexcept;
/// How many bits are set in `count` words.
std::uint32_t count_bits(const std::uint64_t* words, unsigned count) noexcept;

}  // namespace berth::internal
