// SPDX-License-Identifier: Apache-2.0
#include "src/net/socket_setup.h"

#include "src/base/system_calls.h"

#include <sys/socket.h>

#include <cerrno>

namespace berth::internal {
namespace {

using ReadName = int (*)(int, sockaddr*, socklen_t*);

Result<Endpoint> endpoint_of(int fd, ReadName read_name, const char* what) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (read_name(fd, address, &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "read", what));
    }
    return Endpoint::from(address, size);
}

}  // namespace

Result<NewSocket> open_socket(const Endpoint& endpoint, Protocol protocol, bool is_nonblocking) {
    NewSocket socket;
    if (!endpoint.is_unix()) {
        socket.internet =
            BERTH_TRY(Socket::open(protocol, endpoint.address().family(), is_nonblocking));
        return socket;
    }
    const int type = (protocol == Protocol::tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC |
                     (is_nonblocking ? SOCK_NONBLOCK : 0);
    socket.local.reset(calls().socket(AF_UNIX, type, 0));
    if (!socket.local.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open", "unix socket"));
    }
    return socket;
}

Result<void> set_option(int fd, int level, int name, int value, const char* what) {
    if (calls().setsockopt(fd, level, name, &value, sizeof value) != 0) {
        return std::unexpected(Error::from_errno(errno, "set", what));
    }
    return {};
}

void reset_when_closed(int fd) noexcept {
    const linger now = {1, 0};
    calls().setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

namespace {

Result<void> check_family(const NewSocket& socket, const Endpoint& local) {
    const Socket& internet = socket.internet;
    const bool fits = local.is_unix()
                          ? !internet.is_open()
                          : internet.is_open() && internet.family() == local.address().family();
    if (!fits) {
        return std::unexpected(Error(Errc::invalid_argument, "bind", local.to_string(), 0,
                                     "the socket is of another family",
                                     "give a local address of the family of the remote one"));
    }
    return {};
}

}  // namespace

Result<Port> bind_socket(const NewSocket& socket, const Endpoint& local, PortTable* ports) {
    BERTH_TRY(check_family(socket, local));
    if (ports != nullptr && socket.internet.is_open()) {
        return ports->bind(socket.internet, local.address());
    }
    if (calls().bind(socket.fd(), local.data(), local.size()) != 0) {
        return std::unexpected(Error::from_errno(errno, "bind", local.to_string()));
    }
    return Port();
}

Result<int> adopted_option(int fd, int option, const char* wanted) {
    int value = 0;
    socklen_t size = sizeof value;
    if (calls().getsockopt(fd, SOL_SOCKET, option, &value, &size) != 0) {
        return std::unexpected(Error::from_errno(errno, "adopt", wanted));
    }
    return value;
}

Result<void> check_socket_type(int fd, int type, const char* wanted) {
    const int actual = BERTH_TRY(adopted_option(fd, SO_TYPE, wanted));
    const bool fits = actual == type || (type == SOCK_DGRAM && actual == SOCK_SEQPACKET);
    if (!fits) {
        return std::unexpected(
            Error(Errc::invalid_argument, "adopt", wanted, 0, "the socket is of another type"));
    }
    return {};
}

Result<Endpoint> local_endpoint_of(int fd) {
    return endpoint_of(fd, calls().getsockname, "local address");
}

Result<Endpoint> remote_endpoint_of(int fd) {
    return endpoint_of(fd, calls().getpeername, "remote address");
}

}  // namespace berth::internal
