// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace berth::bench {

/// When each message of an open loop is due: at a fixed rate, on one connection after the other,
/// whatever has become of the earlier ones. A latency counts from that time, not from when the
/// client came to send, so that a stall counts for every message that it kept waiting.
class OpenLoop {
public:
    /// `rate` > 0, in messages per second.
    OpenLoop(std::uint64_t start_ns, double rate, std::uint32_t connection_count) noexcept
        : start_ns_(start_ns), interval_ns_(1e9 / rate), connection_count_(connection_count) {}

    std::uint64_t due_ns(std::uint64_t message) const noexcept {
        return start_ns_ + static_cast<std::uint64_t>(static_cast<double>(message) * interval_ns_);
    }
    /// How many messages are due by then.
    std::uint64_t due_count(std::uint64_t now_ns) const noexcept {
        return now_ns < start_ns_ ? 0
                                  : static_cast<std::uint64_t>(
                                        static_cast<double>(now_ns - start_ns_) / interval_ns_) +
                                        1;
    }
    std::uint32_t connection_of(std::uint64_t message) const noexcept {
        return static_cast<std::uint32_t>(message % connection_count_);
    }
    /// Of the `index`-th message of a connection, from 0.
    std::uint64_t due_ns(std::uint32_t connection, std::uint64_t index) const noexcept {
        return due_ns(index * connection_count_ + connection);
    }

private:
    std::uint64_t start_ns_;
    double interval_ns_;
    std::uint32_t connection_count_;
};

}  // namespace berth::bench
