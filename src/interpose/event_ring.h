// SPDX-License-Identifier: Apache-2.0
#pragma once

// Events on their way from the programs of a run to the supervisor, who writes the log. A program
// never waits: it takes the next place and writes there, whether what stood there was read or not,
// and the reader counts what it has missed. A writer that is killed half-way leaves a place that is
// never finished; the reader goes past it after a while.
//
//   place i of the ring holds event i, i + kPlaceCount, i + 2 × kPlaceCount, …; `sequence` says
//   which

#include "src/interpose/call_statistics.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace berth::internal {

struct RunEvent {
    std::uint64_t time_ns = 0;  // CLOCK_REALTIME
    std::uint32_t pid = 0;
    std::int32_t error = 0;  // errno of the call, 0: it succeeded
    std::uint32_t cost_ns = 0;
    std::uint16_t port = 0;  // 0: none
    Call call = Call::bind;
    std::uint8_t protocol = 0;  // Protocol
    std::uint8_t refusals = 0;  // ports that the kernel did not accept
    std::uint8_t source = 0;    // PortSource
    std::uint16_t padding = 0;
};

/// Where a port came from.
enum class PortSource : std::uint8_t { none, table, program, kernel };

class EventRing {
public:
    static constexpr unsigned kPlaceCount = 16'384;

    void add(const RunEvent& event) noexcept {
        const std::uint64_t index = head_.fetch_add(1, std::memory_order_relaxed);
        Place& place = places_[index % kPlaceCount];
        place.sequence.store(0, std::memory_order_release);
        const auto words = std::bit_cast<Words>(event);
        for (unsigned i = 0; i < words.size(); ++i) {
            place.words[i].store(words[i], std::memory_order_release);
        }
        place.sequence.store(index + 1, std::memory_order_release);
    }

    /// The next event; none when there is none yet. One reader. `is_patient`: an unfinished event
    /// is waited for, by answering none.
    std::optional<RunEvent> next(bool is_patient) noexcept {
        while (true) {
            const std::uint64_t head = head_.load(std::memory_order_acquire);
            if (tail_ == head) {
                return std::nullopt;
            }
            if (head - tail_ > kPlaceCount) {
                lost_ += head - tail_ - kPlaceCount;
                tail_ = head - kPlaceCount;
            }
            Place& place = places_[tail_ % kPlaceCount];
            const std::uint64_t sequence = place.sequence.load(std::memory_order_acquire);
            if (sequence < tail_ + 1 && is_patient) {
                return std::nullopt;
            }
            Words words;
            for (unsigned i = 0; i < words.size(); ++i) {
                words[i] = place.words[i].load(std::memory_order_acquire);
            }
            const bool is_whole =
                sequence == tail_ + 1 && place.sequence.load(std::memory_order_relaxed) == sequence;
            ++tail_;
            if (is_whole) return std::bit_cast<RunEvent>(words);
            ++lost_;
        }
    }
    std::uint64_t lost_count() const noexcept { return lost_; }

private:
    using Words = std::array<std::uint64_t, sizeof(RunEvent) / 8>;
    static_assert(sizeof(RunEvent) % 8 == 0);
    struct Place {
        std::atomic<std::uint64_t> sequence;  // index + 1 of the event in it; 0: being written
        std::array<std::atomic<std::uint64_t>, sizeof(RunEvent) / 8> words;
    };

    alignas(64) std::atomic<std::uint64_t> head_;
    alignas(64) std::uint64_t tail_;  // the reader's
    std::uint64_t lost_;              // the reader's
    std::array<Place, kPlaceCount> places_;
};

}  // namespace berth::internal
