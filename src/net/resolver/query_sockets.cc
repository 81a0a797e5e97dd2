// SPDX-License-Identifier: Apache-2.0
#include "src/net/resolver/query_sockets.h"

#include "src/base/system_calls.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace berth::internal {

const ares_socket_functions QuerySockets::kFunctions = {
    .asocket = &QuerySockets::on_open,
    .aclose = &QuerySockets::on_close,
    .aconnect = &QuerySockets::on_connect,
    .arecvfrom = &QuerySockets::on_receive,
    .asendv = &QuerySockets::on_send,
};

QuerySockets::Readiness::Readiness(QuerySocket& socket, short wanted) noexcept
    : PollOperation(&QuerySockets::on_ready), of(socket) {
    events = wanted;
    always_completes = true;
    keeps_alive = false;  // the lookup does
}

// The port goes after the socket.
QuerySockets::QuerySocket::~QuerySocket() {
    if (slot.is_valid()) {
        owner.loop_.detach(slot, Detach::keep);
    }
    socket.close();
}

void QuerySockets::serve(ares_channel channel) noexcept {
    ares_set_socket_functions(channel, &kFunctions, this);
}

QuerySockets::QuerySocket* QuerySockets::find(int fd) noexcept {
    const auto found =
        std::ranges::find_if(open_, [fd](const auto& socket) { return socket->socket.fd() == fd; });
    return found != open_.end() ? found->get() : nullptr;
}

int QuerySockets::fail(const Error& error) noexcept {
    failure_ = error;
    errno = error.system_errno() != 0 ? error.system_errno() : EADDRNOTAVAIL;
    return -1;
}

ares_socket_t QuerySockets::on_open(int domain, int type, int, void* self) noexcept {
    auto& sockets = *static_cast<QuerySockets*>(self);
    Result<Socket> socket =
        Socket::open(type == SOCK_STREAM ? Protocol::tcp : Protocol::udp,
                     domain == AF_INET6 ? Family::ipv6 : Family::ipv4, /*is_nonblocking=*/true);
    if (!socket) {
        return sockets.fail(socket.error());
    }
    const int fd = socket->fd();
    sockets.open_.push_back(std::make_unique<QuerySocket>(sockets, std::move(*socket)));
    return fd;
}

int QuerySockets::on_close(ares_socket_t fd, void* self) noexcept {
    auto& sockets = *static_cast<QuerySockets*>(self);
    const auto found = std::ranges::find_if(
        sockets.open_, [fd](const auto& socket) { return socket->socket.fd() == fd; });
    if (found == sockets.open_.end()) {
        return 0;
    }
    QuerySocket& socket = **found;
    if (socket.slot.is_valid()) {
        sockets.loop_.detach(std::exchange(socket.slot, {}), Detach::keep);
    }
    socket.socket.close();
    socket.port.release();
    // One of its operations may be the one that runs now.
    sockets.closed_.push_back(std::move(*found));
    sockets.open_.erase(found);
    return 0;
}

int QuerySockets::on_connect(ares_socket_t fd, const sockaddr* remote, ares_socklen_t size,
                             void* self) noexcept {
    auto& sockets = *static_cast<QuerySockets*>(self);
    QuerySocket* socket = sockets.find(fd);
    const Result<Address> address = Address::from(remote, size);
    if (socket == nullptr || !address) {
        errno = EBADF;
        return -1;
    }
    return sockets.connect(*socket, *address);
}

int QuerySockets::connect(QuerySocket& socket, const Address& remote) {
    const bool is_tcp = socket.socket.protocol() == Protocol::tcp;
    PortTable* ports = is_tcp ? loop_.options().tcp_ports : loop_.options().udp_ports;
    if (ports == nullptr) {
        return calls().connect(socket.socket.fd(), remote.data(), remote.size());
    }
    Result<Port> port = ports->connect(socket.socket, remote);
    if (!port) {
        return fail(port.error());
    }
    socket.port = std::move(*port);
    if (socket.port.is_connecting()) {
        errno = EINPROGRESS;
        return -1;
    }
    return 0;
}

ares_ssize_t QuerySockets::on_receive(ares_socket_t fd, void* data, size_t size, int flags,
                                      sockaddr* from, ares_socklen_t* from_size,
                                      void* self) noexcept {
    const QuerySocket* socket = static_cast<QuerySockets*>(self)->find(fd);
    const bool is_datagram = socket != nullptr && socket->socket.protocol() == Protocol::udp;
    iovec part = {data, size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ssize_t received = 0;
    // c-ares 1.18 takes an empty datagram for the end of a connection, so anybody could end one.
    do {
        message.msg_name = from;
        message.msg_namelen = from_size != nullptr ? *from_size : 0;
        received = calls().recvmsg(fd, &message, flags);
    } while (received == 0 && is_datagram && size > 0);
    if (received >= 0 && from_size != nullptr) {
        *from_size = message.msg_namelen;
    }
    return received;
}

ares_ssize_t QuerySockets::on_send(ares_socket_t fd, const iovec* parts, int count,
                                   void*) noexcept {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = static_cast<size_t>(count);
    ssize_t sent = calls().sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == ECONNREFUSED) {
        // That was the answer to an earlier question on this socket, which must not wait for ever:
        // the answer to this one says it again.
        sent = calls().sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    return sent;
}

void QuerySockets::on_state(void* self, ares_socket_t fd, int is_readable,
                            int is_writable) noexcept {
    auto& sockets = *static_cast<QuerySockets*>(self);
    QuerySocket* socket = sockets.find(fd);
    if (socket == nullptr) {
        return;
    }
    socket->wants_input = is_readable != 0;
    socket->wants_output = is_writable != 0;
    sockets.watch(*socket);
}

// A socket that cannot be watched looks to c-ares like one that is never answered.
void QuerySockets::watch(QuerySocket& socket) noexcept {
    if (!socket.slot.is_valid() && (socket.wants_input || socket.wants_output)) {
        const auto slot = loop_.attach(socket.socket.fd(), DescriptorKind::other);
        if (!slot) {
            failure_ = slot.error();
            return;
        }
        socket.slot = *slot;
    }
    if (socket.wants_input && !socket.input.is_pending()) {
        submit(&loop_, socket.input, socket.slot, {});
    }
    if (socket.wants_output && !socket.output.is_pending()) {
        submit(&loop_, socket.output, socket.slot, {});
    }
}

void QuerySockets::on_ready(Operation& operation) noexcept {
    const auto& ready = static_cast<Readiness&>(operation);
    const bool is_input = ready.events == POLLIN;
    const bool is_wanted = is_input ? ready.of.wants_input : ready.of.wants_output;
    if (ready.has_failed() || !is_wanted) {
        return;
    }
    const int fd = ready.of.socket.fd();
    QuerySockets& sockets = ready.of.owner;
    sockets.user_.on_socket_ready(is_input ? fd : ARES_SOCKET_BAD, is_input ? ARES_SOCKET_BAD : fd);
    // The socket may be closed, and `ready` gone.
    if (QuerySocket* socket = sockets.find(fd)) {
        sockets.watch(*socket);
    }
}

}  // namespace berth::internal
