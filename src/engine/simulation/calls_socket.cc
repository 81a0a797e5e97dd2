// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulated_calls.h"
#include "src/engine/simulation/tcp_socket.h"
#include "src/engine/simulation/udp_socket.h"
#include "src/engine/simulation/unix_socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <span>
#include <utility>

namespace berth::internal::simulated {
namespace {

constexpr int kTypeFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

bool is_protocol(int asked, int own) noexcept { return asked == 0 || asked == own; }

Accepted make_internet_socket(Kernel& kernel, Family family, int type, int protocol) {
    if (family == Family::ipv6 && !kernel.options.has_ipv6) {
        return {nullptr, -EAFNOSUPPORT};
    }
    switch (type) {
        case SOCK_STREAM:
            return is_protocol(protocol, IPPROTO_TCP)
                       ? Accepted{std::make_shared<TcpSocket>(kernel, family)}
                       : Accepted{nullptr, -EPROTONOSUPPORT};
        case SOCK_DGRAM:
            return is_protocol(protocol, IPPROTO_UDP)
                       ? Accepted{std::make_shared<UdpSocket>(kernel, family)}
                       : Accepted{nullptr, -EPROTONOSUPPORT};
        default:
            return {nullptr, -ESOCKTNOSUPPORT};
    }
}

Accepted make_unix_socket(Kernel& kernel, int type, int protocol) {
    if (!is_protocol(protocol, PF_UNIX)) {
        return {nullptr, -EPROTONOSUPPORT};
    }
    const bool is_known = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET;
    return is_known ? Accepted{std::make_shared<UnixSocket>(kernel, type)}
                    : Accepted{nullptr, -ESOCKTNOSUPPORT};
}

Accepted make_socket(Kernel& kernel, int domain, int type, int protocol) {
    if (domain == AF_UNIX) {
        return make_unix_socket(kernel, type, protocol);
    }
    const Family family = domain == AF_INET ? Family::ipv4 : Family::ipv6;
    return make_internet_socket(kernel, family, type, protocol);
}

bool is_modelled(int domain, int type) noexcept {
    return (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX) && type != SOCK_RAW;
}

int accept_on(Kernel& kernel, Socket& listener, sockaddr* address, socklen_t* size) {
    // The kernel takes the number before it looks for a connection.
    if (kernel.descriptors.is_full()) {
        return -EMFILE;
    }
    Accepted accepted = listener.accept();
    if (accepted.error != 0) {
        return accepted.error;
    }
    if (const int error = copy_name(accepted.peer, address, size); error != 0) {
        accepted.socket->release();
        return error;
    }
    return kernel.descriptors.add(std::move(accepted.socket));
}

int control(File& file, unsigned long request, void* argument) {
    const auto answer = [argument](std::size_t size) {
        *static_cast<int*>(argument) = static_cast<int>(size);
        return 0;
    };
    const auto* socket = dynamic_cast<const Socket*>(&file);
    if (request != FIONBIO && socket != nullptr && socket->is_listening()) {
        return -EINVAL;
    }
    switch (request) {
        case FIONBIO:
            return 0;
        case FIONREAD:
            return answer(file.unread_size());
        case SIOCOUTQ:
            return answer(file.unsent_size());
        default:
            return -ENOTTY;
    }
}

}  // namespace

int socket(int domain, int type, int protocol) {
    const int plain_type = type & ~kTypeFlags;
    if (!is_modelled(domain, plain_type)) {
        return kKernelCalls.socket(domain, type, protocol);
    }
    Kernel& kernel = *active_kernel;
    Call call(kernel, CallKind::socket, -1);
    return static_cast<int>(call.run(nullptr, [&]() -> std::int64_t {
        if (kernel.descriptors.is_full()) {
            return -EMFILE;
        }
        Accepted made = make_socket(kernel, domain, plain_type, protocol);
        return made.error != 0 ? made.error : kernel.descriptors.add(std::move(made.socket));
    }));
}

int bind(int fd, const sockaddr* address, socklen_t size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.bind(fd, address, size);
    }
    return static_cast<int>(on_socket(CallKind::bind, fd, 0, [&](Socket& socket, const Call&) {
        return socket.bind(address, size);
    }));
}

int connect(int fd, const sockaddr* address, socklen_t size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.connect(fd, address, size);
    }
    return static_cast<int>(on_socket(CallKind::connect, fd, 0, [&](Socket& socket, const Call&) {
        return socket.connect(address, size);
    }));
}

int getsockname(int fd, sockaddr* address, socklen_t* size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.getsockname(fd, address, size);
    }
    return static_cast<int>(
        on_socket(CallKind::getsockname, fd, 0, [&](const Socket& socket, const Call&) {
            return copy_name(socket.local_name(), address, size);
        }));
}

int getpeername(int fd, sockaddr* address, socklen_t* size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.getpeername(fd, address, size);
    }
    return static_cast<int>(
        on_socket(CallKind::getpeername, fd, 0, [&](const Socket& socket, const Call&) {
            const std::optional<SocketName> name = socket.peer_name();
            return name ? copy_name(*name, address, size) : -ENOTCONN;
        }));
}

int getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.getsockopt(fd, level, name, value, size);
    }
    return static_cast<int>(on_socket(
        CallKind::getsockopt, fd, 0,
        [&](Socket& socket, const Call&) { return socket.get_option(level, name, value, size); }));
}

int setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.setsockopt(fd, level, name, value, size);
    }
    return static_cast<int>(
        on_socket(CallKind::setsockopt, fd, 0, [&](Socket& socket, const Call&) {
            return socket.set_option(level, name,
                                     std::span(static_cast<const std::byte*>(value), size));
        }));
}

int listen(int fd, int backlog) {
    if (!is_simulated(fd)) {
        return kKernelCalls.listen(fd, backlog);
    }
    return static_cast<int>(on_socket(CallKind::listen, fd, 0, [&](Socket& socket, const Call&) {
        return socket.listen(backlog);
    }));
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.accept4(fd, address, size, flags);
    }
    return static_cast<int>(on_socket(CallKind::accept4, fd, 0, [&](Socket& socket, const Call&) {
        return (flags & ~kTypeFlags) != 0 ? -EINVAL
                                          : accept_on(*active_kernel, socket, address, size);
    }));
}

int shutdown(int fd, int how) {
    if (!is_simulated(fd)) {
        return kKernelCalls.shutdown(fd, how);
    }
    return static_cast<int>(on_socket(CallKind::shutdown, fd, 0, [&](Socket& socket, const Call&) {
        return socket.shutdown(how);
    }));
}

int close(int fd) {
    if (!is_simulated(fd)) {
        return kKernelCalls.close(fd);
    }
    return static_cast<int>(on_file(CallKind::close, fd, 0, [&](const File&, const Call&) {
        return active_kernel->descriptors.remove(fd);
    }));
}

int ioctl(int fd, unsigned long request, void* argument) {
    if (!is_simulated(fd)) {
        return kKernelCalls.ioctl(fd, request, argument);
    }
    return static_cast<int>(on_file(CallKind::ioctl, fd, 0, [&](File& file, const Call&) {
        return control(file, request, argument);
    }));
}

}  // namespace berth::internal::simulated
