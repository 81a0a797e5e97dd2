// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/next_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace berth::internal {
namespace {

int raw_close_range(unsigned first, unsigned last, int flags) {
    return static_cast<int>(::syscall(SYS_close_range, first, last, flags));
}

// Without SYS_dup2, which some architectures lack.
int raw_dup2(int from, int to) {
    if (from == to) {
        return ::fcntl(from, F_GETFD) < 0 ? -1 : to;
    }
    return static_cast<int>(::syscall(SYS_dup3, from, to, 0));
}

template <class Function>
void find(const char* name, Function& function) noexcept {
    if (void* found = ::dlsym(RTLD_NEXT, name); found != nullptr) {
        function = reinterpret_cast<Function>(found);
    }
}

}  // namespace

constinit NextCalls next_calls = {
    .socket =
        [](int domain, int type, int protocol) {
            return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
        },
    .setsockopt =
        [](int fd, int level, int name, const void* value, socklen_t size) {
            return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, value, size));
        },
    .bind = [](int fd, const sockaddr* address,
               socklen_t size) { return static_cast<int>(::syscall(SYS_bind, fd, address, size)); },
    .connect =
        [](int fd, const sockaddr* address, socklen_t size) {
            return static_cast<int>(::syscall(SYS_connect, fd, address, size));
        },
    .listen = [](int fd,
                 int backlog) { return static_cast<int>(::syscall(SYS_listen, fd, backlog)); },
    .sendto =
        [](int fd, const void* data, size_t size, int flags, const sockaddr* to,
           socklen_t to_size) {
            return static_cast<ssize_t>(::syscall(SYS_sendto, fd, data, size, flags, to, to_size));
        },
    .sendmsg =
        [](int fd, const msghdr* message, int flags) {
            return static_cast<ssize_t>(::syscall(SYS_sendmsg, fd, message, flags));
        },
    .sendmmsg =
        [](int fd, mmsghdr* messages, unsigned count, int flags) {
            return static_cast<int>(::syscall(SYS_sendmmsg, fd, messages, count, flags));
        },
    .close = [](int fd) { return static_cast<int>(::syscall(SYS_close, fd)); },
    .close_range = raw_close_range,
    .closefrom =
        [](int first) { raw_close_range(first < 0 ? 0U : static_cast<unsigned>(first), ~0U, 0); },
    .dup2 = raw_dup2,
    .dup3 = [](int from, int to,
               int flags) { return static_cast<int>(::syscall(SYS_dup3, from, to, flags)); },
};

void find_next_calls() noexcept {
    find("socket", next_calls.socket);
    find("setsockopt", next_calls.setsockopt);
    find("bind", next_calls.bind);
    find("connect", next_calls.connect);
    find("listen", next_calls.listen);
    find("sendto", next_calls.sendto);
    find("sendmsg", next_calls.sendmsg);
    find("sendmmsg", next_calls.sendmmsg);
    find("close", next_calls.close);
    find("close_range", next_calls.close_range);
    find("closefrom", next_calls.closefrom);
    find("dup2", next_calls.dup2);
    find("dup3", next_calls.dup3);
}

}  // namespace berth::internal
