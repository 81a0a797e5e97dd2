// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one worker of the reproducer holds, by port: the neighbours of a port and a random one of
// its own are found in constant time.

#include <berth/socket.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace berth::bench {

template <class T>
class Held {
public:
    explicit Held(PortRange range) : first_(range.first), place_(range.size(), kNone) {}

    std::size_t size() const noexcept { return entries_.size(); }
    bool has(std::uint16_t port) const noexcept {
        return is_in_range(port) && place_[port - first_] != kNone;
    }

    /// `port` is in the range and not held.
    void add(std::uint16_t port, T item) {
        place_[port - first_] = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back({port, std::move(item)});
    }

    std::optional<T> remove(std::uint16_t port) {
        return has(port) ? std::optional<T>(remove_at(place_[port - first_])) : std::nullopt;
    }

    /// Index 0 is the oldest as long as no more than two are held. `index` < size().
    T remove_at(std::size_t index) {
        Entry& entry = entries_[index];
        place_[entry.port - first_] = kNone;
        T item = std::move(entry.item);
        if (index + 1 != entries_.size()) {
            entry = std::move(entries_.back());
            place_[entry.port - first_] = static_cast<std::uint32_t>(index);
        }
        entries_.pop_back();
        return item;
    }

private:
    struct Entry {
        std::uint16_t port;
        T item;
    };
    static constexpr std::uint32_t kNone = 0xffff'ffff;

    bool is_in_range(std::uint16_t port) const noexcept {
        return port >= first_ && static_cast<std::size_t>(port - first_) < place_.size();
    }

    std::uint16_t first_;
    std::vector<std::uint32_t> place_;  // index = port − first_
    std::vector<Entry> entries_;
};

}  // namespace berth::bench
