// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every system call that decides about ports or moves data goes through this table, so that a test
// can make any of them fail and a simulation can take the kernel's place. Semantics and errno are
// those of the function of the same name.

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <ctime>

namespace berth::internal {

struct SystemCalls {
    int (*socket)(int domain, int type, int protocol);
    int (*bind)(int fd, const sockaddr* address, socklen_t size);
    int (*connect)(int fd, const sockaddr* address, socklen_t size);
    int (*getsockname)(int fd, sockaddr* address, socklen_t* size);
    int (*getsockopt)(int fd, int level, int name, void* value, socklen_t* size);
    int (*setsockopt)(int fd, int level, int name, const void* value, socklen_t size);
    ssize_t (*sendto)(int fd, const void* data, size_t size, int flags, const sockaddr* to,
                      socklen_t to_size);
    ssize_t (*recv)(int fd, void* data, size_t size, int flags);

    int (*listen)(int fd, int backlog);
    int (*accept4)(int fd, sockaddr* address, socklen_t* size, int flags);
    int (*shutdown)(int fd, int how);
    int (*close)(int fd);
    int (*getpeername)(int fd, sockaddr* address, socklen_t* size);
    ssize_t (*send)(int fd, const void* data, size_t size, int flags);
    ssize_t (*recvmsg)(int fd, msghdr* message, int flags);
    ssize_t (*sendmsg)(int fd, const msghdr* message, int flags);
    int (*recvmmsg)(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout);
    int (*sendmmsg)(int fd, mmsghdr* messages, unsigned count, int flags);
    ssize_t (*preadv2)(int fd, const iovec* parts, int count, off_t offset, int flags);
    ssize_t (*pwritev2)(int fd, const iovec* parts, int count, off_t offset, int flags);
    ssize_t (*splice)(int in, off_t* in_offset, int out, off_t* out_offset, size_t size,
                      unsigned flags);
    ssize_t (*sendfile)(int out, int in, off_t* offset, size_t size);
    int (*ioctl)(int fd, unsigned long request, void* argument);

    int (*ppoll)(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask);
    int (*pselect)(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
                   const sigset_t* mask);
    int (*epoll_ctl)(int epoll, int operation, int fd, epoll_event* event);
    int (*epoll_pwait2)(int epoll, epoll_event* events, int count, const timespec* timeout,
                        const sigset_t* mask);
    int (*epoll_pwait)(int epoll, epoll_event* events, int count, int timeout_ms,
                       const sigset_t* mask);
    int (*clock_gettime)(clockid_t clock, timespec* time);
};

/// The kernel's own.
const SystemCalls& kernel_calls() noexcept;

extern const SystemCalls kKernelCalls;

/// What berth uses now; kernel_calls() unless a test has put others in place. Initialised at
/// compile time, so that it is valid in the constructors of static objects too.
inline constinit const SystemCalls* current_calls = &kKernelCalls;

inline const SystemCalls& calls() noexcept { return *current_calls; }

/// Puts other calls in place for its lifetime. Tests only, while no other thread uses berth.
class ScopedSystemCalls {
public:
    explicit ScopedSystemCalls(const SystemCalls& replacement) noexcept : previous_(current_calls) {
        current_calls = &replacement;
    }
    ~ScopedSystemCalls() { current_calls = previous_; }
    ScopedSystemCalls(const ScopedSystemCalls&) = delete;
    ScopedSystemCalls& operator=(const ScopedSystemCalls&) = delete;

private:
    const SystemCalls* previous_;
};

}  // namespace berth::internal
