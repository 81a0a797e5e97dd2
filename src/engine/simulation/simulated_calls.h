// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of the simulated table. Each looks at its descriptor: one that is not simulated
// belongs to the real kernel, and so does the call.

#include "src/base/system_calls.h"
#include "src/engine/simulation/call.h"
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/socket.h"

#include <memory>

namespace berth::internal::simulated {

// System calls are plain functions, so the kernel that they speak to is found here. Set by
// Simulation alone.
extern constinit Kernel* active_kernel;

const SystemCalls& simulated_calls() noexcept;

/// Makes a call on a file: `body(File&, const Call&)` answers as the kernel does.
template <class Body>
std::int64_t on_file(CallKind kind, int fd, std::size_t size, Body body) {
    const std::shared_ptr<File> file = active_kernel->descriptors.find(fd);
    Call call(*active_kernel, kind, fd, size);
    return call.run(file.get(),
                    [&]() -> std::int64_t { return file == nullptr ? -EBADF : body(*file, call); });
}

/// The same on a socket: `body(Socket&, const Call&)`.
template <class Body>
std::int64_t on_socket(CallKind kind, int fd, std::size_t size, Body body) {
    return on_file(kind, fd, size, [&](File& file, const Call& call) -> std::int64_t {
        auto* socket = dynamic_cast<Socket*>(&file);
        return socket == nullptr ? -ENOTSOCK : body(*socket, call);
    });
}

// Sockets: calls_socket.cc.
int socket(int domain, int type, int protocol);
int bind(int fd, const sockaddr* address, socklen_t size);
int connect(int fd, const sockaddr* address, socklen_t size);
int getsockname(int fd, sockaddr* address, socklen_t* size);
int getpeername(int fd, sockaddr* address, socklen_t* size);
int getsockopt(int fd, int level, int name, void* value, socklen_t* size);
int setsockopt(int fd, int level, int name, const void* value, socklen_t size);
int listen(int fd, int backlog);
int accept4(int fd, sockaddr* address, socklen_t* size, int flags);
int shutdown(int fd, int how);
int close(int fd);
int ioctl(int fd, unsigned long request, void* argument);

// Data: calls_transfer.cc and calls_copy.cc.
ssize_t send(int fd, const void* data, size_t size, int flags);
ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to,
               socklen_t to_size);
ssize_t sendmsg(int fd, const msghdr* message, int flags);
int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags);
ssize_t recv(int fd, void* data, size_t size, int flags);
ssize_t recvmsg(int fd, msghdr* message, int flags);
int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout);
ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags);
ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags);
ssize_t splice(int in, off_t* in_offset, int out, off_t* out_offset, size_t size, unsigned flags);
ssize_t sendfile(int out, int in, off_t* offset, size_t size);

// Waiting and time: calls_wait.cc.
int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask);
int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
            const sigset_t* mask);
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event);
int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* timeout,
                 const sigset_t* mask);
int epoll_pwait(int epoll, epoll_event* events, int count, int timeout_ms, const sigset_t* mask);
int clock_gettime(clockid_t clock, timespec* time);

}  // namespace berth::internal::simulated
