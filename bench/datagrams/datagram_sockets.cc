// SPDX-License-Identifier: Apache-2.0
#include "bench/datagrams/datagram_sockets.h"

#include <berth/address.h>

#include <netinet/udp.h>
#include <sys/socket.h>
#include <cerrno>

namespace berth::bench {
namespace {

constexpr int kBufferSize = 4 << 20;

Result<Descriptor> open_socket() {
    Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const Address local = Address::loopback(Family::ipv4);
    if (!socket.is_open() || ::bind(socket.get(), local.data(), local.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "open", "udp ipv4 socket"));
    }
    return socket;
}

/// The first option goes beyond the host's limit, which only root may; else the limit counts.
void enlarge(int socket, int forced_option, int option) {
    if (::setsockopt(socket, SOL_SOCKET, forced_option, &kBufferSize, sizeof(kBufferSize)) != 0) {
        static_cast<void>(
            ::setsockopt(socket, SOL_SOCKET, option, &kBufferSize, sizeof(kBufferSize)));
    }
}

Result<void> connect_to_socket(const Descriptor& socket, const Descriptor& other) {
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    auto* const address = reinterpret_cast<sockaddr*>(&storage);
    if (::getsockname(other.get(), address, &size) != 0 ||
        ::connect(socket.get(), address, size) != 0) {
        return std::unexpected(Error::from_errno(errno, "connect", "udp ipv4 socket"));
    }
    return {};
}

Result<void> set_udp_option(const Descriptor& socket, int option, int value, const char* name) {
    if (::setsockopt(socket.get(), IPPROTO_UDP, option, &value, sizeof(value)) == 0) {
        return {};
    }
    return std::unexpected(Error(Errc::unsupported, "set", name, errno,
                                 "the kernel has no segmentation offload for UDP"));
}

}  // namespace

Result<DatagramSockets> open_datagram_sockets(DatagramMode mode, std::size_t datagram_size) {
    DatagramSockets sockets = {BERTH_TRY(open_socket()), BERTH_TRY(open_socket())};
    BERTH_TRY(connect_to_socket(sockets.sender, sockets.receiver));
    BERTH_TRY(connect_to_socket(sockets.receiver, sockets.sender));
    enlarge(sockets.sender.get(), SO_SNDBUFFORCE, SO_SNDBUF);
    enlarge(sockets.receiver.get(), SO_RCVBUFFORCE, SO_RCVBUF);
    if (mode == DatagramMode::segmented) {
        BERTH_TRY(set_udp_option(sockets.sender, UDP_SEGMENT, static_cast<int>(datagram_size),
                                 "UDP_SEGMENT"));
        BERTH_TRY(set_udp_option(sockets.receiver, UDP_GRO, 1, "UDP_GRO"));
    }
    return sockets;
}

}  // namespace berth::bench
