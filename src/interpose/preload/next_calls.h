// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that the interposed ones stand in front of: the next ones in the search order of
// the dynamic linker, so that other interposers still work and cancellation points stay what they
// are. Until they are known (a constructor of another library may call first) plain system calls.

#include <sys/socket.h>
#include <sys/types.h>

namespace berth::internal {

struct NextCalls {
    int (*socket)(int domain, int type, int protocol);
    int (*setsockopt)(int fd, int level, int name, const void* value, socklen_t size);
    int (*bind)(int fd, const sockaddr* address, socklen_t size);
    int (*connect)(int fd, const sockaddr* address, socklen_t size);
    int (*listen)(int fd, int backlog);
    ssize_t (*sendto)(int fd, const void* data, size_t size, int flags, const sockaddr* to,
                      socklen_t to_size);
    ssize_t (*sendmsg)(int fd, const msghdr* message, int flags);
    int (*sendmmsg)(int fd, mmsghdr* messages, unsigned count, int flags);
    int (*close)(int fd);
    int (*close_range)(unsigned first, unsigned last, int flags);
    void (*closefrom)(int first);
    int (*dup2)(int from, int to);
    int (*dup3)(int from, int to, int flags);
};

// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constinit where it is defined
extern NextCalls next_calls;

/// Looks all of them up. One that is not found stays a plain system call.
void find_next_calls() noexcept;

}  // namespace berth::internal
