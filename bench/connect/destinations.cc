// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/destinations.h"

#include "bench/harness/process.h"

#include <berth/socket.h>

#include <sys/epoll.h>
#include <unistd.h>
#include <cerrno>

#include <array>

namespace berth::bench {
namespace {

constexpr std::uint16_t kFirstPort = 7000;
constexpr int kBacklog = 65'535;  // cut to net.core.somaxconn

// A server that waits for connections is woken by each of them, and whether that costs the client 1
// or 15 microseconds depends on where the scheduler has put it. So it looks by the clock instead.
constexpr int kAcceptIntervalMs = 2;

Result<Descriptor> listen_on(const Address& address) {
    Socket socket = BERTH_TRY(tcp_socket(address.family()));
    BERTH_TRY(socket.set_nonblocking(true));
    if (::bind(socket.fd(), address.data(), address.size()) != 0 ||
        ::listen(socket.fd(), kBacklog) != 0) {
        return std::unexpected(Error::from_errno(errno, "listen", address.to_string()));
    }
    return socket.release();
}

Result<Address> address_of(const Descriptor& socket) {
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (::getsockname(socket.get(), address, &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "read", "the listener's address"));
    }
    return Address::from(address, size);
}

void watch(int epoll, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void accept_all(int epoll, int listener) {
    for (;;) {
        const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            return;
        }
        watch(epoll, client, EPOLLIN | EPOLLRDHUP);
    }
}

[[noreturn]] void serve(int listener) {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    std::array<epoll_event, 256> events;
    for (;;) {
        const int count =
            ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), kAcceptIntervalMs);
        for (int i = 0; i < count; ++i) {
            ::close(events[static_cast<std::size_t>(i)].data.fd);
        }
        accept_all(epoll, listener);
    }
}

}  // namespace

Result<Destinations> Destinations::start(unsigned count, Family family,
                                         const Environment& environment) {
    Destinations destinations;
    const bool is_host = environment.isolation == Isolation::host;
    for (unsigned i = 0; i < count; ++i) {
        const auto port = static_cast<std::uint16_t>(is_host ? 0 : kFirstPort + i);
        Descriptor listener = BERTH_TRY(listen_on(Address::loopback(family, port)));
        destinations.addresses_.push_back(BERTH_TRY(address_of(listener)));
        const pid_t server = BERTH_TRY(fork_helper());
        if (server == 0) {
            serve(listener.get());
        }
        destinations.servers_.push_back(server);
    }
    return destinations;
}

Destinations::~Destinations() {
    for (const pid_t server : servers_) {
        end_helper(server);
    }
}

}  // namespace berth::bench
