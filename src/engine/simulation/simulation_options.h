// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/fault_schedule.h"

#include <berth/address.h>
#include <berth/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace berth::internal {

/// What happens to a first packet for an address.
enum class Route : std::uint8_t {
    local,       ///< It arrives; nobody there: a reset, or port unreachable.
    no_network,  ///< The call says ENETUNREACH at once.
    no_host,     ///< EHOSTUNREACH, after the way there and back.
    black_hole,  ///< It is lost. A TCP connect ends by ETIMEDOUT.
};

/// What the network does to UDP datagrams. Probabilities, 0 .. 1.
struct DatagramWeather {
    double loss = 0;
    double duplication = 0;
    double reordering = 0;  ///< Held back, so that later ones overtake it.
    std::chrono::nanoseconds longest_hold = std::chrono::milliseconds(1);
};

struct SimulationOptions {
    /// Decides the ports that are chosen and the weather; faults have a seed of their own.
    std::uint64_t seed = 1;
    FaultSchedule faults{};
    DatagramWeather weather{};

    /// Addresses of the simulated host beside 127.0.0.0/8 and ::1.
    std::vector<Address> local_addresses{};
    /// For every address that is not local; see Simulation::set_route() for single ones.
    Route default_route = Route::no_network;
    bool has_ipv6 = true;
    bool bind_v6_only = false;  ///< net.ipv6.bindv6only
    PortRange port_range = {32768, 33791};

    /// One way. 0: a call's effects on the other side are there when it returns.
    std::chrono::nanoseconds latency{0};
    std::size_t segment_size = 65'483;  ///< TCP payload at most; the loopback device's.
    /// As SO_SNDBUF and SO_RCVBUF show it, which is twice what a user asks for. TCP holds half of
    /// it in payload; datagrams and AF_UNIX count each message and an overhead against the whole.
    int send_buffer = 212'992;
    int receive_buffer = 212'992;
    int max_asked_buffer = 4'194'304;  ///< net.core.wmem_max and rmem_max
    int max_backlog = 4'096;           ///< net.core.somaxconn

    std::chrono::nanoseconds first_connect_retry = std::chrono::seconds(1);  ///< Then doubled.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(127);
    std::chrono::nanoseconds orphan_timeout = std::chrono::seconds(60);  ///< In FIN_WAIT2.
    std::chrono::nanoseconds time_wait{0};  ///< How long a closed connection keeps its port.

    std::size_t descriptor_limit = 1'048'576;
    std::size_t memory_limit = std::size_t{1} << 30;  ///< Bytes in all queues.

    /// What every call takes. With 0 a program that spins without waiting sees no time pass.
    std::chrono::nanoseconds call_duration{0};
    /// So many calls in a row that achieve nothing at one point of time abort: the program spins.
    std::uint64_t spin_limit = 10'000'000;
    /// A wait without an end, and nothing will ever happen. Empty: print it, and abort. Otherwise
    /// called with the text; when still nothing is ready after it, the wait answers EINTR.
    std::function<void(const std::string& report)> on_deadlock{};
    std::size_t trace_length = 64;  ///< Calls that are remembered.
};

}  // namespace berth::internal
