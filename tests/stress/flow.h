// SPDX-License-Identifier: Apache-2.0
#pragma once

// One direction of a connection, as its two ends see it: what was handed over to be sent, and what
// came. What came must be what was sent, from the first byte on; all of it, when the stream ended
// in order.

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace berth::test::stress {

struct Flow {
    struct Chunk {
        std::span<const std::byte> bytes;
        std::size_t sent = 0;  // as far as the sender knows; all of them for an owning send
    };

    /// Bytes that differ from place to place; those of a flow come from here.
    static std::span<const std::byte> noise();

    Chunk& hand_over(std::span<const std::byte> bytes);
    void take(std::span<const std::byte> bytes) {
        received.insert(received.end(), bytes.begin(), bytes.end());
    }
    /// What is wrong with it; to be asked when both ends are gone.
    std::optional<std::string> complaint() const;

    std::deque<Chunk> chunks;  // in the order handed over
    std::size_t handed_over_size = 0;
    std::vector<std::byte> received;
    bool has_ended = false;   // the receiver has seen the end of the stream
    bool may_be_cut = false;  // an end does not mean that all has come: something went wrong
    bool is_unknown = false;  // results were thrown away together with their operation
};

struct Connection {
    std::string name;
    Flow forth;  // from the client
    Flow back;
};

}  // namespace berth::test::stress
