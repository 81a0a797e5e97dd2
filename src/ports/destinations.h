// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which local ports are in use toward each destination of TCP connect(). One port serves many
// destinations, so each has a set of its own: a few ports in a small array, and a PortSet only once
// it has grown. The sets live in this process's memory and know its own connections; what other
// processes have the kernel refuses, and refresh() learns.
//
// A mutex guards each destination while a port is drawn for it, never across a system call.
// Nothing here is shared between processes.

#include "src/ports/port_set.h"
#include "src/ports/table_core.h"

#include <berth/address.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace berth::internal {

class DestinationPin;

struct Destination {
public:
    /// Takes a port that is unused toward this destination and that nobody has bound.
    MaybePort take(TableCore& core, const Footprint& footprint, Ask ask);
    /// Notes a port that the kernel chose. False when it was noted already.
    bool adopt(std::uint16_t port, PortRange range);
    /// Gives a port back, to rest until `now_ms` + `rest_ms`.
    void release(std::uint16_t port, std::uint64_t now_ms, std::uint64_t rest_ms);
    /// Gives a port back that was never used.
    void unclaim(std::uint16_t port);
    /// The kernel refused this port: another process has it, or it is in TIME_WAIT.
    void mark_foreign(std::uint16_t port);
    /// Takes over which ports the kernel shows toward this destination; foreign ones that it does
    /// not show are unused again.
    void refresh(const std::vector<std::uint16_t>& in_kernel, PortRange range);

    /// True at most once per interval: the caller may ask the kernel.
    bool may_recheck(std::uint64_t now_ms, std::uint64_t interval_ms);
    /// The next time is not before `next_ms`.
    void postpone_recheck(std::uint64_t next_ms);
    /// Nobody has a connection to it, nor is about to. What it knows of resting and foreign ports
    /// is worth little: the kernel refuses a used one in 3 microseconds.
    bool is_idle() const noexcept { return pin_count_.load() == 0; }

    /// Keeps it from being forgotten. Each Port of a connection holds one.
    void pin() noexcept { pin_count_.fetch_add(1); }
    void unpin() noexcept { pin_count_.fetch_sub(1); }

private:
    struct Rest {
        std::uint16_t port;
        std::uint64_t until_ms;
    };
    // Ports in `few_` at most, before the bitmap is worth its 16 KiB.
    static constexpr std::size_t kFewLimit = 32;

    bool is_used(std::uint16_t port) const noexcept;
    void mark_used(std::uint16_t port, PortRange range);
    void mark_unused(std::uint16_t port);
    static bool are_many(std::size_t port_count, PortRange range) noexcept;
    void grow(PortRange range);
    void end_rests(std::uint64_t now_ms);
    bool end_oldest_rests();

    std::mutex mutex_;
    std::vector<std::uint16_t> few_;   // used ports, while unused_ is null
    std::unique_ptr<PortSet> unused_;  // of grown_range_
    PortRange grown_range_;
    std::vector<std::uint16_t> foreign_;  // used ports that are not ours; may name one twice
    std::deque<Rest> resting_;            // used ports of closed connections, oldest first
    std::uint32_t used_count_ = 0;        // ours, foreign and resting
    std::uint64_t next_recheck_ms_ = 0;
    std::atomic<std::uint32_t> pin_count_{0};
};

/// Keeps a destination from being forgotten.
class DestinationPin {
public:
    /// Takes over one pin().
    explicit DestinationPin(Destination* destination) noexcept : destination_(destination) {}
    DestinationPin(DestinationPin&& other) noexcept
        : destination_(std::exchange(other.destination_, nullptr)) {}
    DestinationPin& operator=(DestinationPin&&) = delete;
    ~DestinationPin() {
        if (destination_ != nullptr) destination_->unpin();
    }
    /// Null beyond the limit on destinations.
    Destination* get() const noexcept { return destination_; }

private:
    Destination* destination_;
};

class Destinations {
public:
    /// Destinations that are told apart at once, idle ones aside.
    static constexpr std::size_t kLimit = 65'536;

    /// `local` is the address the socket is bound to, or a wildcard.
    DestinationPin find_or_make(const Address& remote, const Address& local);
    std::size_t count() const;

private:
    struct Key {
        std::array<std::uint8_t, 16> remote;
        std::array<std::uint8_t, 16> local;
        std::uint32_t scope_id;
        std::uint16_t port;
        std::uint16_t family;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct Hash {
        std::size_t operator()(const Key& key) const noexcept;
    };
    struct Shard {
        mutable std::mutex mutex;
        std::unordered_map<Key, std::unique_ptr<Destination>, Hash> destinations;
        std::uint64_t next_forgetting_ms = 0;
    };
    static constexpr std::size_t kShardCount = 64;

    static void forget_idle(Shard& shard);

    std::array<Shard, kShardCount> shards_;
};

}  // namespace berth::internal
