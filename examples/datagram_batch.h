// SPDX-License-Identifier: Apache-2.0
#pragma once

// Room for several datagrams, to receive them with one system call and to send them on with
// another.

#include <berth/datagram_socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>

/// Of datagrams up to the size of a jumbo frame of an Ethernet: longer ones are left out.
template <std::size_t count>
class DatagramBatch {
public:
    std::span<berth::Datagram> room() {
        for (std::size_t i = 0; i < count; ++i) {
            datagrams_[i] = {};
            datagrams_[i].buffer = bytes_[i];
        }
        return datagrams_;
    }

    /// The first `received_count`, which have been received, ready to be sent: each with its own
    /// size and not that of its room, which holds what earlier ones have left.
    std::span<berth::Datagram> received(std::size_t received_count) {
        const auto all = std::span(datagrams_).first(received_count);
        const auto cut = std::ranges::remove_if(all, &berth::Datagram::is_truncated);
        const auto whole = all.first(all.size() - cut.size());
        for (berth::Datagram& datagram : whole) {
            datagram.buffer = datagram.buffer.first(datagram.size);
        }
        return whole;
    }

private:
    std::array<std::array<std::byte, 9216>, count> bytes_;
    std::array<berth::Datagram, count> datagrams_;
};

/// Says where they are to be sent: to `peer`, or without one to where the socket is connected.
inline void direct(std::span<berth::Datagram> datagrams, std::optional<berth::Address> peer) {
    for (berth::Datagram& datagram : datagrams) {
        datagram.has_peer = peer.has_value();
        datagram.peer = peer.value_or(berth::Address());
    }
}
