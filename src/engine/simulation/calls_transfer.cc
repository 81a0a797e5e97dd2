// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulated_calls.h"

#include <sys/uio.h>

#include <algorithm>
#include <span>

namespace berth::internal::simulated {
namespace {

constexpr std::size_t kMostParts = 1'024;  // UIO_MAXIOV
constexpr int kKnownFileFlags = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND;

std::span<const iovec> parts_of(const msghdr& message) noexcept {
    return {message.msg_iov, message.msg_iovlen};
}

// What has too many parts is refused before anybody looks at them.
std::size_t size_of(std::span<const iovec> parts) noexcept {
    std::size_t size = 0;
    if (parts.size() > kMostParts) {
        return 0;
    }
    for (const iovec& part : parts) size += part.iov_len;
    return size;
}

std::int64_t send_message(Socket& socket, const Call& call, const msghdr& message, int flags) {
    if (message.msg_iovlen > kMostParts) {
        return -EMSGSIZE;
    }
    Outgoing outgoing{
        .data = Source(parts_of(message)),
        .flags = flags,
        .to = static_cast<const sockaddr*>(message.msg_name),
        .to_size = message.msg_namelen,
        .control = {static_cast<const std::byte*>(message.msg_control), message.msg_controllen}};
    call.cut(socket, outgoing.data);
    return socket.send(outgoing);
}

std::int64_t receive_message(Socket& socket, const Call& call, msghdr& message, int flags) {
    if (message.msg_iovlen > kMostParts) {
        return -EMSGSIZE;
    }
    Incoming incoming{.data = Sink(parts_of(message)), .flags = flags, .from = {}, .control = {}};
    call.cut(socket, incoming.data);
    const ssize_t result = socket.receive(incoming);
    if (result >= 0) {
        fill_header(incoming, message);
    }
    return result;
}

// −1 is where the file is; anything else below 0 is nonsense.
int file_error(int count, off_t offset, int flags) noexcept {
    if (count < 0 || static_cast<std::size_t>(count) > kMostParts || offset < -1) {
        return -EINVAL;
    }
    return (flags & ~kKnownFileFlags) != 0 ? -EOPNOTSUPP : 0;
}

}  // namespace

ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to,
               socklen_t to_size) {
    if (!is_simulated(fd)) {
        return kKernelCalls.sendto(fd, data, size, flags, to, to_size);
    }
    return on_socket(CallKind::sendto, fd, size, [&](Socket& socket, const Call& call) {
        Outgoing outgoing{.data = Source(data, size),
                          .flags = flags,
                          .to = to,
                          .to_size = to == nullptr ? 0 : to_size,
                          .control = {}};
        call.cut(socket, outgoing.data);
        return socket.send(outgoing);
    });
}

ssize_t send(int fd, const void* data, size_t size, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.send(fd, data, size, flags);
    }
    return on_socket(CallKind::send, fd, size, [&](Socket& socket, const Call& call) {
        Outgoing outgoing{.data = Source(data, size), .flags = flags, .control = {}};
        call.cut(socket, outgoing.data);
        return socket.send(outgoing);
    });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.sendmsg(fd, message, flags);
    }
    return on_socket(CallKind::sendmsg, fd, size_of(parts_of(*message)),
                     [&](Socket& socket, const Call& call) {
                         return send_message(socket, call, *message, flags);
                     });
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.sendmmsg(fd, messages, count, flags);
    }
    const auto body = [&](Socket& socket, const Call& call) -> std::int64_t {
        std::int64_t done = 0;
        for (mmsghdr& entry : std::span(messages, std::min<std::size_t>(count, kMostParts))) {
            const std::int64_t result = send_message(socket, call, entry.msg_hdr, flags);
            if (result < 0) {
                return done > 0 ? done : result;
            }
            entry.msg_len = static_cast<unsigned>(result);
            ++done;
        }
        return done;
    };
    return static_cast<int>(on_socket(CallKind::sendmmsg, fd, count, body));
}

ssize_t recv(int fd, void* data, size_t size, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.recv(fd, data, size, flags);
    }
    return on_socket(CallKind::recv, fd, size, [&](Socket& socket, const Call& call) {
        Incoming incoming{.data = Sink(data, size), .flags = flags, .from = {}, .control = {}};
        call.cut(socket, incoming.data);
        return socket.receive(incoming);
    });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.recvmsg(fd, message, flags);
    }
    return on_socket(CallKind::recvmsg, fd, size_of(parts_of(*message)),
                     [&](Socket& socket, const Call& call) {
                         return receive_message(socket, call, *message, flags);
                     });
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    if (!is_simulated(fd)) {
        return kKernelCalls.recvmmsg(fd, messages, count, flags, timeout);
    }
    const auto body = [&](Socket& socket, const Call& call) -> std::int64_t {
        std::int64_t done = 0;
        for (mmsghdr& entry : std::span(messages, std::min<std::size_t>(count, kMostParts))) {
            const std::int64_t result = receive_message(socket, call, entry.msg_hdr, flags);
            if (result < 0) {
                if (done > 0 && result != -EAGAIN) {
                    socket.leave_error(static_cast<int>(-result));
                }
                return done > 0 ? done : result;
            }
            entry.msg_len = static_cast<unsigned>(result);
            ++done;
        }
        return done;
    };
    return static_cast<int>(on_socket(CallKind::recvmmsg, fd, count, body));
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.preadv2(fd, parts, count, offset, flags);
    }
    const int error = file_error(count, offset, flags);
    const std::span<const iovec> span(parts, error == 0 ? static_cast<std::size_t>(count) : 0);
    return on_file(CallKind::preadv2, fd, size_of(span), [&](File& file, const Call& call) {
        if (error != 0) {
            return ssize_t{error};
        }
        Incoming incoming{.data = Sink(span), .from = {}, .control = {}};
        call.cut(file, incoming.data);
        return offset == -1 ? file.read(incoming)
                            : file.read_at(incoming, static_cast<std::size_t>(offset));
    });
}

ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    if (!is_simulated(fd)) {
        return kKernelCalls.pwritev2(fd, parts, count, offset, flags);
    }
    const int error = file_error(count, offset, flags);
    const std::span<const iovec> span(parts, error == 0 ? static_cast<std::size_t>(count) : 0);
    return on_file(CallKind::pwritev2, fd, size_of(span), [&](File& file, const Call& call) {
        if (error != 0) {
            return ssize_t{error};
        }
        Outgoing outgoing{.data = Source(span), .control = {}};
        call.cut(file, outgoing.data);
        return offset == -1 ? file.write(outgoing)
                            : file.write_at(outgoing, static_cast<std::size_t>(offset));
    });
}

}  // namespace berth::internal::simulated
