// SPDX-License-Identifier: Apache-2.0
#include "bench/bind/port_filler.h"

#include "bench/harness/environment.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace berth::bench {
namespace {

std::vector<std::uint16_t> kernel_order(PortRange range, Protocol protocol, std::uint64_t seed) {
    std::vector<std::uint16_t> order;
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
        order.push_back(static_cast<std::uint16_t>(port));
    }
    std::mt19937_64 random(seed);
    std::shuffle(order.begin(), order.end(), random);
    if (protocol == Protocol::tcp) {
        std::partition(order.begin(), order.end(),
                       [range](std::uint16_t port) { return (port - range.first) % 2 == 1; });
    }
    return order;
}

Result<Descriptor> bind_port(Protocol protocol, const Address& address) {
    Socket socket = BERTH_TRY(Socket::open(protocol, address.family()));
    if (::bind(socket.fd(), address.data(), address.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "bind", address.to_string()));
    }
    return socket.release();
}

}  // namespace

PortFiller::PortFiller(const Environment& environment, Protocol protocol, Family family,
                       std::uint64_t seed)
    : protocol_(protocol),
      local_(bind_address(environment, family)),
      range_size_(environment.range.size()),
      // Before 6.8 the kernel's list has no sockets that are only bound; listening ones hold their
      // port by the same rules and are listed.
      must_listen_(protocol == Protocol::tcp && !kernel_is_at_least(6, 8)),
      order_(kernel_order(environment.range, protocol, seed)) {
    if (environment.isolation == Isolation::host) {
        leave_out_foreign_ports();
    }
    sockets_.reserve(order_.size());
}

void PortFiller::leave_out_foreign_ports() {
    std::erase_if(order_, [this](std::uint16_t port) {
        return !bind_port(protocol_, local_.with_port(port)).has_value();
    });
}

unsigned PortFiller::taken_count() const noexcept {
    return range_size_ - static_cast<unsigned>(free_ports().size());
}

std::span<const std::uint16_t> PortFiller::free_ports() const noexcept {
    return std::span(order_).subspan(taken_from_order_);
}

Result<void> PortFiller::take_next() {
    Descriptor socket =
        BERTH_TRY(bind_port(protocol_, local_.with_port(order_[taken_from_order_])));
    if (must_listen_ && ::listen(socket.get(), 1) != 0) {
        return std::unexpected(Error::from_errno(errno, "listen", local_.to_string()));
    }
    sockets_.push_back(std::move(socket));
    ++taken_from_order_;
    return {};
}

Result<void> PortFiller::fill_to(unsigned count) {
    while (taken_count() < count && !free_ports().empty()) {
        BERTH_TRY(take_next());
    }
    return {};
}

}  // namespace berth::bench
