// SPDX-License-Identifier: Apache-2.0
#pragma once

// poll() over a dense array, and three answers to the question how to find a descriptor's entry in
// it: by an index, by binary search, by looking at one entry after the other.
//
// The array with an index needs to find an entry only when a descriptor comes or goes. The other
// two stand for a loop without one, whose operations are one-shot (as nsock's are): each operation
// finds its entry when it starts and when it ends.

#include "bench/raw/readiness.h"

#include <poll.h>

#include <algorithm>

namespace berth::bench::raw {

/// What the arrays have in common: entries, and beside each its token.
class PollArray {
public:
    static constexpr std::size_t kNone = ~std::size_t{0};

    std::size_t size() const noexcept { return entries_.size(); }
    pollfd& operator[](std::size_t place) noexcept { return entries_[place]; }
    std::uint32_t token(std::size_t place) const noexcept { return tokens_[place]; }
    pollfd* data() noexcept { return entries_.data(); }

protected:
    void append(int fd, short events, std::uint32_t token) {
        entries_.push_back({fd, events, 0});
        tokens_.push_back(token);
    }
    /// The last entry takes the place of the one that goes.
    void replace_by_last(std::size_t place) {
        entries_[place] = entries_.back();
        tokens_[place] = tokens_.back();
        entries_.pop_back();
        tokens_.pop_back();
    }

    std::vector<pollfd> entries_;
    std::vector<std::uint32_t> tokens_;  // index = place
};

class IndexedArray : public PollArray {
public:
    static constexpr bool kFindsForEachOperation = false;

    void add(int fd, short events, std::uint32_t token) {
        const auto index = static_cast<std::size_t>(fd);
        if (index >= place_of_.size()) {
            place_of_.resize(std::max(index + 1, place_of_.size() * 2));
        }
        place_of_[index] = static_cast<std::uint32_t>(size());
        append(fd, events, token);
    }
    std::size_t find(int fd) const noexcept { return place_of_[static_cast<std::size_t>(fd)]; }
    void remove(int fd) {
        const std::size_t place = find(fd);
        place_of_[static_cast<std::size_t>(entries_.back().fd)] = static_cast<std::uint32_t>(place);
        replace_by_last(place);
    }

private:
    std::vector<std::uint32_t> place_of_;  // index = descriptor
};

class LinearArray : public PollArray {
public:
    static constexpr bool kFindsForEachOperation = true;

    void add(int fd, short events, std::uint32_t token) { append(fd, events, token); }
    std::size_t find(int fd) const noexcept {
        for (std::size_t place = 0; place < entries_.size(); ++place) {
            if (entries_[place].fd == fd) {
                return place;
            }
        }
        return kNone;
    }
    void remove(int fd) { replace_by_last(find(fd)); }
};

class SortedArray : public PollArray {
public:
    static constexpr bool kFindsForEachOperation = true;

    void add(int fd, short events, std::uint32_t token) {
        const auto place = static_cast<std::ptrdiff_t>(lower_bound(fd));
        entries_.insert(entries_.begin() + place, {fd, events, 0});
        tokens_.insert(tokens_.begin() + place, token);
    }
    std::size_t find(int fd) const noexcept {
        const std::size_t place = lower_bound(fd);
        return place < entries_.size() && entries_[place].fd == fd ? place : kNone;
    }
    void remove(int fd) {
        const auto place = static_cast<std::ptrdiff_t>(find(fd));
        entries_.erase(entries_.begin() + place);
        tokens_.erase(tokens_.begin() + place);
    }

private:
    std::size_t lower_bound(int fd) const noexcept {
        const auto found = std::ranges::lower_bound(entries_, fd, {}, &pollfd::fd);
        return static_cast<std::size_t>(found - entries_.begin());
    }
};

template <class Array>
class PollPoller {
public:
    static constexpr bool kIsEdge = false;
    static constexpr bool kMustReadWakeup = true;

    static Result<PollPoller> open(std::size_t) { return PollPoller(); }

    Result<void> add(int fd, std::uint32_t token, Interest interest) {
        array_.add(fd, interest == Interest::read ? POLLIN : POLLOUT, token);
        return {};
    }
    Result<void> add_wakeup(int fd) { return add(fd, 0, Interest::read); }
    void remove(int fd) { array_.remove(fd); }

    template <class OnReady>
    Result<void> wait(OnReady on_ready) {
        int left = ::poll(array_.data(), array_.size(), -1);
        if (left < 0) {
            return errno == EINTR ? Result<void>{} : last_error("poll");
        }
        for (std::size_t place = 0; left > 0 && place < array_.size();) {
            if (array_[place].revents == 0) {
                ++place;
                continue;
            }
            --left;
            const int fd = array_[place].fd;
            report(place, on_ready);
            // Another entry may have come here in the place of one that was removed.
            if (place < array_.size() && array_[place].fd == fd) {
                ++place;
            }
        }
        return {};
    }

private:
    template <class OnReady>
    void report(std::size_t place, OnReady& on_ready) {
        pollfd& entry = array_[place];
        const Ready ready = {.fd = entry.fd,
                             .token = array_.token(place),
                             .may_have_failed = (entry.revents & (POLLERR | POLLHUP)) != 0};
        const short events = entry.events;
        entry.revents = 0;
        if constexpr (Array::kFindsForEachOperation) {
            array_[array_.find(ready.fd)].events = 0;
        }
        on_ready(ready);
        if constexpr (Array::kFindsForEachOperation) {
            const std::size_t found = array_.find(ready.fd);
            if (found != PollArray::kNone) {
                array_[found].events = events;
            }
        }
    }

    Array array_;
};

}  // namespace berth::bench::raw
