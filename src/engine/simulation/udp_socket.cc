// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/udp_socket.h"

#include "src/engine/simulation/kernel.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace berth::internal::simulated {
namespace {

constexpr std::size_t kMostIpv4 = 65'507;
constexpr std::size_t kMostIpv6 = 65'527;
constexpr std::size_t kMostSegments = 128;

sa_family_t family_of(const sockaddr* address) noexcept {
    sa_family_t family = AF_UNSPEC;
    std::memcpy(&family, address, sizeof(family));
    return family;
}

}  // namespace

UdpSocket::UdpSocket(Kernel& kernel, Family family)
    : InternetSocket(kernel,
                     {family == Family::ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM, IPPROTO_UDP}) {}

int UdpSocket::connect(const sockaddr* address, socklen_t size) {
    if (size < sizeof(sa_family_t)) {
        return -EINVAL;
    }
    if (family_of(address) == AF_UNSPEC) {
        disconnect();
        return 0;
    }
    if (const int error = ensure_port(); error != 0) {
        return error;
    }
    Address remote;
    if (const int error = read_udp_destination(address, size, remote); error != 0) {
        return error;
    }
    if (local_.is_wildcard()) {
        set_local_host(kernel_.routes.source_for(remote));
    }
    remote_ = remote;
    return 0;
}

int UdpSocket::ensure_port() { return has_port() || choose_port() == 0 ? 0 : -EAGAIN; }

void UdpSocket::disconnect() {
    forget_chosen_name();
    if (!is_port_named_) {
        release_port();
        local_ = local_.with_port(0);
    }
}

int UdpSocket::read_udp_destination(const sockaddr* to, socklen_t size,
                                    Address& destination) const {
    // An IPv6 socket takes an IPv4 address as it is.
    if (family() == Family::ipv6 && size >= sizeof(sa_family_t) && family_of(to) == AF_INET) {
        Address plain;
        if (const int error = read_address(Family::ipv4, to, size, plain); error != 0) {
            return error;
        }
        const Address as_ipv6 = mapped(plain);
        return read_destination(as_ipv6.data(), as_ipv6.size(), destination);
    }
    return read_destination(to, size, destination);
}

int UdpSocket::shutdown(int how) {
    if (how < SHUT_RD || how > SHUT_RDWR) {
        return -EINVAL;
    }
    // Whoever polls is told even when there is no connection to shut.
    shut_ |= static_cast<unsigned>(how) + 1;
    wake(0);
    return is_unconnected() ? -ENOTCONN : 0;
}

ssize_t UdpSocket::send(Outgoing& outgoing) {
    if (const int error = ensure_port(); error != 0) {
        return error;
    }
    const std::size_t size = outgoing.data.remaining();
    if (size > std::numeric_limits<std::uint16_t>::max()) {
        return -EMSGSIZE;
    }
    if ((outgoing.flags & MSG_OOB) != 0) {
        return -EOPNOTSUPP;
    }
    Datagram datagram;
    if (const int error = choose_destination(outgoing, datagram.destination); error != 0) {
        return error;
    }
    if (const int error = send_error(size, datagram.destination); error != 0) {
        return error;
    }
    if (const int error = segment_size_of(outgoing, datagram.segment_size); error != 0) {
        return error;
    }
    const Address host =
        local_.is_wildcard() ? kernel_.routes.source_for(datagram.destination) : local_;
    datagram.source = host.with_port(local_.port());
    datagram.data = outgoing.data.take(size);
    dispatch(datagram);
    return static_cast<ssize_t>(size);
}

int UdpSocket::choose_destination(const Outgoing& outgoing, Address& destination) const {
    if (outgoing.to == nullptr || outgoing.to_size == 0) {
        destination = remote_;
        return is_unconnected() ? -EDESTADDRREQ : 0;
    }
    const int error = read_udp_destination(outgoing.to, outgoing.to_size, destination);
    return error == 0 && destination.port() == 0 ? -EINVAL : error;
}

int UdpSocket::send_error(std::size_t size, const Address& destination) {
    if (size > (destination.family() == Family::ipv4 ? kMostIpv4 : kMostIpv6)) {
        return -EMSGSIZE;
    }
    if (error_ != 0) {
        return -take_error();
    }
    if (is_shut(kShutWrite)) {
        return -EPIPE;
    }
    if (under_way_size_ >= static_cast<std::size_t>(send_buffer_)) {
        return -EAGAIN;
    }
    return kernel_.memory.has_room_for(size) ? 0 : -ENOBUFS;
}

int UdpSocket::segment_size_of(const Outgoing& outgoing, std::size_t& segment_size) const {
    const auto given = find_control(outgoing.control, SOL_UDP, UDP_SEGMENT);
    segment_size = given ? *given : segment_size_;
    const std::size_t size = outgoing.data.remaining();
    if (segment_size != 0 && size > segment_size * kMostSegments) {
        return -EINVAL;
    }
    if (size <= segment_size) {
        segment_size = 0;
    }
    return 0;
}

ssize_t UdpSocket::receive(Incoming& incoming) {
    if ((incoming.flags & MSG_ERRQUEUE) != 0) {
        return -EAGAIN;
    }
    if (error_ != 0) {
        return -take_error();
    }
    if (queue_.empty()) {
        return -EAGAIN;
    }
    const Datagram& datagram = queue_.front().datagram;
    const std::size_t full = datagram.data.size();
    const std::size_t copied = incoming.data.put(datagram.data);
    incoming.from = name_of(datagram.source, family());
    if (copied < full) {
        incoming.message_flags |= MSG_TRUNC;
    }
    if (takes_bundles_ && datagram.segment_size != 0) {
        put_control(incoming.control, SOL_UDP, UDP_GRO, static_cast<int>(datagram.segment_size));
    }
    if ((incoming.flags & MSG_PEEK) == 0) {
        queued_size_ -= full + kMessageOverhead;
        queue_.pop_front();
    }
    return static_cast<ssize_t>((incoming.flags & MSG_TRUNC) != 0 ? full : copied);
}

std::uint32_t UdpSocket::poll() {
    std::uint32_t events = error_ != 0 ? EPOLLERR : 0U;
    if (is_shut(kShutRead)) {
        events |= kReadable | EPOLLRDHUP;
    }
    if (is_shut(kShutBoth)) {
        events |= EPOLLHUP;
    }
    if (!queue_.empty()) {
        events |= kReadable;
    }
    if (2 * under_way_size_ <= static_cast<std::size_t>(send_buffer_)) {
        events |= kWritable | EPOLLWRBAND;
    }
    return events;
}

std::optional<int> UdpSocket::get_own_option(int level, int name) {
    if (level == SOL_UDP && name == UDP_SEGMENT) {
        return static_cast<int>(segment_size_);
    }
    if (level == SOL_UDP && name == UDP_GRO) {
        return static_cast<int>(takes_bundles_);
    }
    return InternetSocket::get_own_option(level, name);
}

std::optional<int> UdpSocket::set_own_option(int level, int name, int value) {
    if (level == SOL_UDP && name == UDP_SEGMENT) {
        if (value < 0 || value > std::numeric_limits<std::uint16_t>::max()) {
            return -EINVAL;
        }
        segment_size_ = static_cast<std::size_t>(value);
        return 0;
    }
    if (level == SOL_UDP && name == UDP_GRO) {
        takes_bundles_ = value != 0;
        return 0;
    }
    return InternetSocket::set_own_option(level, name, value);
}

void UdpSocket::on_close() {
    release_port();
    queue_.clear();
}

std::string UdpSocket::describe() const {
    std::string text = describe_names();
    if (!queue_.empty()) {
        text += ", " + std::to_string(queue_.size()) + " datagrams unread";
    }
    return text;
}

}  // namespace berth::internal::simulated
