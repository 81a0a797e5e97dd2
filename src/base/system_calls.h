// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every system call that decides about ports goes through this table, so that a test can make any
// of them fail. Semantics and errno are those of the function of the same name.

#include <sys/socket.h>
#include <sys/types.h>

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
