// SPDX-License-Identifier: Apache-2.0
#pragma once

// What each descriptor of this process holds: one atomic word, index = descriptor. The memory is
// reserved for every descriptor that the process may ever have and costs only what is touched. It
// is empty again in a forked child (MADV_WIPEONFORK): what the child inherits stays its parent's,
// which is also what the table's owner words say.
//
// A descriptor can be closed behind our back (a raw system call, fclose(), io_uring). Its word is
// then stale, which the next call on a new socket of that number notices.

#include <berth/address.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace berth::internal {

enum class HeldKind : std::uint8_t {
    nothing = 0,
    seen = 1,        ///< It has a port that is not ours to release.
    bound = 2,       ///< A port in one or two spaces of the table.
    connection = 3,  ///< The port of a TCP connection that connect() was told to take.
    name_only = 4,   ///< A TCP connection failed: getsockname() names a port that it has no more.
    fresh = 5        ///< A UDP or TCP socket that this process made, without a port so far.
};

/// What a program has done to a fresh socket: then it must be asked.
using SocketFlags = std::uint8_t;
constexpr SocketFlags kMayReuse = 1;         // set SO_REUSEADDR or SO_REUSEPORT
constexpr SocketFlags kMayWaitForPort = 2;   // set IP_BIND_ADDRESS_NO_PORT
constexpr SocketFlags kMayHaveRange = 4;     // set IP_LOCAL_PORT_RANGE
constexpr SocketFlags kMayBeV6Only = 8;      // set IPV6_V6ONLY
constexpr SocketFlags kMayHaveAddress = 16;  // bound without a port
constexpr SocketFlags kMayHaveAnything = 31;

/// One word, unpacked.
struct Held {
    static constexpr std::uint8_t kNoSpace = 0xff;
    static constexpr unsigned kFlagShift = 24;

    HeldKind kind = HeldKind::nothing;
    Protocol protocol = Protocol::udp;
    std::uint16_t port = 0;
    // bound
    std::uint8_t space = kNoSpace;
    std::uint8_t other_space = kNoSpace;
    std::uint16_t tag = 0;  // of the owner word
    // fresh
    SocketFlags flags = 0;
    // connection, fresh
    Family family = Family::ipv4;
    std::uint8_t slot = 0xff;      // of the destination pool; 0xff: none
    std::uint16_t generation = 0;  // of that slot

    friend bool operator==(const Held&, const Held&) = default;

    //   0    16   19  20  21    24     32      40      51        56         60
    //   [port|kind|tcp|v6 |     |space |other  |tag    |                      ]  bound
    //   [port|kind|tcp|v6 |     |slot  |generation 16  |                      ]  connection
    //   [   0|kind|tcp|v6 |     |flags |                                      ]  fresh
    constexpr std::uint64_t packed() const noexcept {
        std::uint64_t word = port | static_cast<std::uint64_t>(kind) << 16 |
                             static_cast<std::uint64_t>(protocol) << 19 |
                             static_cast<std::uint64_t>(family) << 20;
        if (kind == HeldKind::connection) {
            word |= static_cast<std::uint64_t>(slot) << 24 | static_cast<std::uint64_t>(generation)
                                                                 << 32;
        } else if (kind == HeldKind::bound) {
            word |= static_cast<std::uint64_t>(space) << 24 |
                    static_cast<std::uint64_t>(other_space) << 32 |
                    static_cast<std::uint64_t>(tag) << 40;
        } else if (kind == HeldKind::fresh) {
            word |= static_cast<std::uint64_t>(flags) << kFlagShift;
        }
        return word;
    }
    static constexpr Held unpack(std::uint64_t word) noexcept {
        Held held;
        held.port = static_cast<std::uint16_t>(word);
        held.kind = static_cast<HeldKind>(word >> 16 & 7);
        held.protocol = static_cast<Protocol>(word >> 19 & 1);
        held.family = static_cast<Family>(word >> 20 & 1);
        if (held.kind == HeldKind::connection) {
            held.slot = static_cast<std::uint8_t>(word >> 24);
            held.generation = static_cast<std::uint16_t>(word >> 32);
        } else if (held.kind == HeldKind::bound) {
            held.space = static_cast<std::uint8_t>(word >> 24);
            held.other_space = static_cast<std::uint8_t>(word >> 32);
            held.tag = static_cast<std::uint16_t>(word >> 40 & 0x7ff);
        } else if (held.kind == HeldKind::fresh) {
            held.flags = static_cast<SocketFlags>(word >> kFlagShift);
        }
        return held;
    }
    bool has_port_of_ours() const noexcept {
        return kind == HeldKind::bound || kind == HeldKind::connection;
    }
};

class HeldDescriptors {
public:
    /// No descriptor is known.
    constexpr HeldDescriptors() noexcept = default;
    /// `words` are `count` zeroed words that outlive the object.
    constexpr HeldDescriptors(std::atomic<std::uint64_t>* words, unsigned count) noexcept
        : words_(words), count_(count) {}

    bool covers(int fd) const noexcept { return static_cast<unsigned>(fd) < count_; }
    /// Nothing to remember of it. **Cost:** one load.
    bool is_empty(int fd) const noexcept {
        return !covers(fd) || words_[fd].load(std::memory_order_relaxed) == 0;
    }
    Held get(int fd) const noexcept {
        return covers(fd) ? Held::unpack(words_[fd].load(std::memory_order_acquire)) : Held{};
    }
    /// Returns what stood there before.
    Held put(int fd, const Held& held) noexcept {
        if (!covers(fd)) {
            return {};
        }
        raise_end(static_cast<unsigned>(fd) + 1);
        return Held::unpack(words_[fd].exchange(held.packed(), std::memory_order_acq_rel));
    }
    Held take(int fd) noexcept {
        return is_empty(fd) ? Held{}
                            : Held::unpack(words_[fd].exchange(0, std::memory_order_acq_rel));
    }
    /// Puts `held` in place of `expected`. False when something else stands there.
    bool replace(int fd, const Held& expected, const Held& held) noexcept {
        std::uint64_t word = expected.packed();
        return covers(fd) &&
               words_[fd].compare_exchange_strong(word, held.packed(), std::memory_order_acq_rel);
    }
    /// Adds to the flags of a fresh socket; nothing for any other.
    void add_flags(int fd, SocketFlags flags) noexcept {
        std::uint64_t word = is_empty(fd) ? 0 : words_[fd].load(std::memory_order_relaxed);
        while (Held::unpack(word).kind == HeldKind::fresh &&
               !words_[fd].compare_exchange_weak(
                   word, word | static_cast<std::uint64_t>(flags) << Held::kFlagShift,
                   std::memory_order_acq_rel)) {
        }
    }
    /// One past the highest descriptor that was ever put.
    unsigned end() const noexcept { return end_.load(std::memory_order_relaxed); }

private:
    void raise_end(unsigned wanted) noexcept {
        unsigned now = end_.load(std::memory_order_relaxed);
        while (now < wanted &&
               !end_.compare_exchange_weak(now, wanted, std::memory_order_relaxed)) {
        }
    }

    std::atomic<std::uint64_t>* words_ = nullptr;
    unsigned count_ = 0;
    std::atomic<unsigned> end_{0};
};

}  // namespace berth::internal
