// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/connection_filler.h"

#include "bench/connect/connector.h"
#include "bench/harness/environment.h"

#include <algorithm>
#include <cerrno>
#include <random>

namespace berth::bench {
namespace {

std::vector<std::uint16_t> make_order(PortRange range, FillOrder order, std::uint64_t seed) {
    std::vector<std::uint16_t> ports;
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
        ports.push_back(static_cast<std::uint16_t>(port));
    }
    std::mt19937_64 random(seed);
    std::shuffle(ports.begin(), ports.end(), random);
    const int first_parity = order == FillOrder::as_connect ? 0 : 1;
    std::partition(ports.begin(), ports.end(),
                   [&](std::uint16_t port) { return (port - range.first) % 2 == first_parity; });
    return ports;
}

}  // namespace

ConnectionFiller::ConnectionFiller(const Environment& environment, FillOrder order,
                                   std::vector<Address> destinations, std::uint64_t seed)
    : order_kind_(order),
      destinations_(std::move(destinations)),
      order_(make_order(environment.range, order, seed)),
      has_range_option_(has_local_port_range_option()),
      keeper_(environment.descriptor_limit - kSpareDescriptors) {
    // On the host the destinations listen within the range: a socket could meet itself there.
    for (const Address& destination : destinations_) {
        std::erase(order_, destination.port());
    }
}

std::span<const std::uint16_t> ConnectionFiller::free_ports() const noexcept {
    return std::span(order_).subspan(taken_count_);
}

Result<void> ConnectionFiller::fill_to(unsigned count) {
    while (taken_count_ < std::min<std::size_t>(count, order_.size())) {
        BERTH_TRY(take(order_[taken_count_]));
        ++taken_count_;
    }
    return {};
}

Result<void> ConnectionFiller::take(std::uint16_t port) {
    const bool may_share = order_kind_ == FillOrder::as_connect && has_range_option_;
    if (!may_share) {
        return connect_from(port, destinations_[port % destinations_.size()], false);
    }
    for (const Address& destination : destinations_) {
        BERTH_TRY(connect_from(port, destination, true));
    }
    return {};
}

Result<void> ConnectionFiller::connect_from(std::uint16_t port, const Address& destination,
                                            bool may_share) {
    Socket socket = BERTH_TRY(open_resetting_socket(destination.family()));
    const Address local = Address::loopback(destination.family(), port);
    if (may_share) {
        BERTH_TRY(socket.set_local_port_range({port, port}));
    } else if (::bind(socket.fd(), local.data(), local.size()) != 0) {
        // A stranger's port on a shared host is as taken as one of ours.
        return errno == EADDRINUSE
                   ? Result<void>{}
                   : std::unexpected(Error::from_errno(errno, "bind", local.to_string()));
    }
    if (::connect(socket.fd(), destination.data(), destination.size()) != 0) {
        return errno == EADDRNOTAVAIL
                   ? Result<void>{}
                   : std::unexpected(Error::from_errno(errno, "connect", destination.to_string()));
    }
    return keeper_.keep(socket.release());
}

}  // namespace berth::bench
