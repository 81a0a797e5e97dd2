// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which local ports are in use toward each destination of TCP connect(), for all processes of one
// `berth run` together: a fixed number of sets in shared memory, found by the destination. One
// local port serves many destinations, so each has a set of its own.
//
// Everything here is a hint. The kernel refuses a 4-tuple that is in use in 3 microseconds, so a
// port that wrongly looks free costs one refused connect(), and one that wrongly looks used is
// found by the next refresh(), which holds the set against the kernel's list. That is why nothing
// is owned, nothing is locked, and a process may be killed at any instruction.
//
//   unused   may be drawn
//   fresh    was drawn since the last refresh() began: the kernel's list may be older than it
//   closed   its connection was closed; drawn when nothing else is left: where the other side
//   closed
//            first, or the kernel may reuse what is in TIME_WAIT, it can be had
//   waiting  the kernel has refused it after that, or shows it in TIME_WAIT, which it may reuse
//   after
//            a second (net.ipv4.tcp_tw_reuse, by default on loopback): drawn again twice a second
//
// A slot's state holds a generation, so that whoever remembers a slot notices that it has been
// given to another destination. One that is noticed too late is another wrong hint.

#include "src/ports/port_set.h"

#include <berth/address.h>
#include <berth/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

namespace berth::internal {

/// What tells destinations apart. `local` is the address that the socket is bound to, or a
/// wildcard.
struct DestinationKey {
    std::array<std::uint64_t, 4> addresses{};  // remote, local
    std::uint64_t rest = 0;                    // scope id, port, family

    static DestinationKey of(const Address& remote, const Address& local) noexcept;
    friend bool operator==(const DestinationKey&, const DestinationKey&) = default;
};

struct DestinationSlot {
    PortSet unused;
    PortBits fresh;
    PortBits closed;
    PortBits waiting;
    PortBits recycled;  // drawn again after having been closed, unless refused since
    std::array<std::atomic<std::uint64_t>, 5> key;
    std::atomic<std::uint32_t> state;  // generation << 2 | Stage
    std::atomic<std::uint64_t> next_recheck_ms;
    std::atomic<std::uint64_t> next_turn_ms;

    /// Takes a port that nobody is known to use. True for exactly one caller.
    bool claim(std::uint16_t port) noexcept;
    /// Puts back one that was claimed and never used.
    void unclaim(std::uint16_t port) noexcept { unused.release(port); }
    /// The connection from `port` was closed.
    void note_closed(std::uint16_t port) noexcept;
    /// The kernel has refused `port`. True when that tells no more than that it still waits for its
    /// closed connection.
    bool note_refused(std::uint16_t port) noexcept;
    /// Lets the ports of closed connections be drawn again, and when there are none, those that
    /// wait. Returns how many there were. **Cost:** a microsecond.
    unsigned reuse_closed(std::uint64_t now_ms) noexcept;
};

/// A slot as somebody remembers it.
struct DestinationHandle {
    static constexpr unsigned kNone = 0xff;
    unsigned index = kNone;
    std::uint16_t generation = 0;

    explicit operator bool() const noexcept { return index != kNone; }
};

/// Plain memory; all zero is an empty pool.
class DestinationPool {
public:
    static constexpr unsigned kSlotCount = 128;
    static_assert(kSlotCount <= DestinationHandle::kNone);

    /// Finds the destination's slot or makes one with all ports of `range` unused. None when every
    /// slot is taken. Two who make one at the same moment may each get their own; everybody after
    /// them finds the first.
    DestinationHandle find_or_make(const DestinationKey& key, PortRange range) noexcept;

    /// Null when the slot has been given to another destination since.
    DestinationSlot* get(DestinationHandle handle) noexcept;

    /// Begins to hold a slot against the kernel: from here on new claims are told apart. Returns
    /// its key, or none for a slot that is not in use.
    struct Snapshot {
        DestinationHandle handle;
        DestinationKey key;
        std::array<std::uint64_t, kWordCount> used;
    };
    bool begin_refresh(unsigned index, PortRange range, Snapshot& snapshot) noexcept;
    /// What the kernel shows toward this destination, listed after begin_refresh().
    struct KernelPorts {
        std::array<std::uint64_t, kWordCount> connected{};
        std::array<std::uint64_t, kWordCount> waiting{};  // TIME_WAIT
    };
    /// Ends it. A slot that has no used port left is given up.
    void end_refresh(const Snapshot& snapshot, const KernelPorts& in_kernel) noexcept;

private:
    enum class Stage : std::uint32_t { empty = 0, being_made = 1, ready = 2 };
    static constexpr Stage stage_of(std::uint32_t state) noexcept {
        return static_cast<Stage>(state & 3);
    }
    static constexpr std::uint32_t generation_of(std::uint32_t state) noexcept {
        return state >> 2;
    }
    static constexpr std::uint32_t make_state(std::uint32_t generation, Stage stage) noexcept {
        return generation << 2 | static_cast<std::uint32_t>(stage);
    }
    static DestinationHandle handle_of(unsigned index, std::uint32_t state) noexcept {
        return {index, static_cast<std::uint16_t>(generation_of(state))};
    }
    static bool make(DestinationSlot& slot, std::uint32_t seen, const DestinationKey& key,
                     PortRange range) noexcept;

    std::array<DestinationSlot, kSlotCount> slots_;
};

}  // namespace berth::internal
