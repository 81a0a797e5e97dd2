// SPDX-License-Identifier: Apache-2.0
#include "src/ports/destinations.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace berth::internal {

bool Destination::is_used(std::uint16_t port) const noexcept {
    if (unused_ != nullptr) {
        return grown_range_.contains(port) && !unused_->is_free(port);
    }
    return std::ranges::find(few_, port) != few_.end();
}

void Destination::mark_used(std::uint16_t port, PortRange range) {
    ++used_count_;
    if (unused_ != nullptr) {
        unused_->claim(port);
        return;
    }
    few_.push_back(port);
    if (are_many(few_.size(), range)) {
        grow(range);
    }
}

// In a small range a few ports are many: a draw that rejects most of them is no draw.
bool Destination::are_many(std::size_t port_count, PortRange range) noexcept {
    return port_count > std::min<std::size_t>(kFewLimit, range.size() / 4);
}

void Destination::mark_unused(std::uint16_t port) {
    if (!is_used(port)) {
        return;
    }
    --used_count_;
    if (used_count_ == 0) {
        unused_.reset();
        few_.clear();
    } else if (unused_ != nullptr) {
        unused_->release(port);
    } else {
        std::erase(few_, port);
    }
}

void Destination::grow(PortRange range) {
    auto unused = std::make_unique<PortSet>();
    used_count_ = 0;
    for (unsigned number = range.first; number <= range.last; ++number) {
        const auto port = static_cast<std::uint16_t>(number);
        if (is_used(port)) {
            ++used_count_;
        } else {
            unused->release(port);
        }
    }
    unused_ = std::move(unused);
    grown_range_ = range;
    few_.clear();
    few_.shrink_to_fit();
}

void Destination::end_rests(std::uint64_t now_ms) {
    while (!resting_.empty() && resting_.front().until_ms <= now_ms) {
        mark_unused(resting_.front().port);
        resting_.pop_front();
    }
}

bool Destination::end_oldest_rests() {
    // An eighth at a time, so that the order of closing does not tell the next port.
    const std::size_t ended = (resting_.size() + 7) / 8;
    for (std::size_t i = 0; i < ended; ++i) {
        mark_unused(resting_.front().port);
        resting_.pop_front();
    }
    return ended > 0;
}

MaybePort Destination::take(TableCore& core, const Footprint& footprint, Ask ask) {
    const std::lock_guard lock(mutex_);
    end_rests(coarse_now_ms());
    const PortRange range = core.range();
    const PortRange asked = ask.range.is_valid() ? ask.range : range;
    if (unused_ != nullptr && grown_range_ != range) {
        grow(range);  // the namespace's range has changed
    }
    if (unused_ == nullptr && are_many(few_.size(), asked)) {
        grow(range);
    }
    while (true) {
        ask.also_free_in = unused_.get();
        const auto port = core.draw(footprint, ask, [this](std::uint16_t candidate) {
            return unused_ != nullptr ? unused_->is_free(candidate) : !is_used(candidate);
        });
        if (port) {
            mark_used(*port, range);
            return port;
        }
        if (!end_oldest_rests()) {
            return {};
        }
    }
}

bool Destination::adopt(std::uint16_t port, PortRange range) {
    const std::lock_guard lock(mutex_);
    const bool is_new = !is_used(port);
    if (is_new) {
        mark_used(port, range);
    }
    std::erase(foreign_, port);
    std::erase_if(resting_, [port](const Rest& rest) { return rest.port == port; });
    return is_new;
}

void Destination::release(std::uint16_t port, std::uint64_t now_ms, std::uint64_t rest_ms) {
    const std::lock_guard lock(mutex_);
    if (rest_ms == 0) {
        mark_unused(port);
    } else {
        resting_.push_back({port, now_ms + rest_ms});
    }
}

void Destination::unclaim(std::uint16_t port) {
    const std::lock_guard lock(mutex_);
    mark_unused(port);
}

void Destination::mark_foreign(std::uint16_t port) {
    const std::lock_guard lock(mutex_);
    foreign_.push_back(port);
}

void Destination::refresh(const std::vector<std::uint16_t>& in_kernel, PortRange range) {
    const std::lock_guard lock(mutex_);
    for (const std::uint16_t port : foreign_) mark_unused(port);
    foreign_.clear();
    for (const std::uint16_t port : in_kernel) {
        if (range.contains(port) && !is_used(port)) {
            mark_used(port, range);
            foreign_.push_back(port);
        }
    }
}

bool Destination::may_recheck(std::uint64_t now_ms, std::uint64_t interval_ms) {
    const std::lock_guard lock(mutex_);
    if (now_ms < next_recheck_ms_) {
        return false;
    }
    next_recheck_ms_ = now_ms + interval_ms;
    return true;
}

void Destination::postpone_recheck(std::uint64_t next_ms) {
    const std::lock_guard lock(mutex_);
    next_recheck_ms_ = std::max(next_recheck_ms_, next_ms);
}

std::size_t Destinations::Hash::operator()(const Key& key) const noexcept {
    char bytes[sizeof(Key)];
    std::memcpy(bytes, &key, sizeof bytes);
    return std::hash<std::string_view>{}({bytes, sizeof bytes});
}

// Where nearly all are in use, looking for the others each time would cost more than they are
// worth.
void Destinations::forget_idle(Shard& shard) {
    constexpr std::uint64_t kIntervalMs = 100;
    const std::uint64_t now = coarse_now_ms();
    if (now >= shard.next_forgetting_ms) {
        std::erase_if(shard.destinations,
                      [](const auto& entry) { return entry.second->is_idle(); });
        shard.next_forgetting_ms =
            shard.destinations.size() * 2 >= kLimit / kShardCount ? now + kIntervalMs : now;
    }
}

DestinationPin Destinations::find_or_make(const Address& remote, const Address& local) {
    const Key key{remote.bytes(), local.bytes(), remote.scope_id(), remote.port(),
                  static_cast<std::uint16_t>(remote.family())};
    static_assert(std::has_unique_object_representations_v<Key>);
    Shard& shard = shards_[Hash{}(key) % kShardCount];
    const std::lock_guard lock(shard.mutex);
    auto found = shard.destinations.find(key);
    if (found == shard.destinations.end()) {
        if (shard.destinations.size() >= kLimit / kShardCount) {
            forget_idle(shard);
        }
        if (shard.destinations.size() >= kLimit / kShardCount) {
            return DestinationPin(nullptr);
        }
        found = shard.destinations.emplace(key, std::make_unique<Destination>()).first;
    }
    found->second->pin();
    return DestinationPin(found->second.get());
}

std::size_t Destinations::count() const {
    std::size_t total = 0;
    for (const Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        total += shard.destinations.size();
    }
    return total;
}

}  // namespace berth::internal
