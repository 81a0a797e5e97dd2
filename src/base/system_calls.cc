// SPDX-License-Identifier: Apache-2.0
#include "src/base/system_calls.h"

#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include <fcntl.h>
#include <unistd.h>

namespace berth::internal {

constinit const SystemCalls kKernelCalls = {
    .socket = ::socket,
    .bind = ::bind,
    .connect = ::connect,
    .getsockname = ::getsockname,
    .getsockopt = ::getsockopt,
    .setsockopt = ::setsockopt,
    .sendto = ::sendto,
    .recv = ::recv,
    .listen = ::listen,
    .accept4 = ::accept4,
    .shutdown = ::shutdown,
    .close = ::close,
    .getpeername = ::getpeername,
    .send = ::send,
    .recvmsg = ::recvmsg,
    .sendmsg = ::sendmsg,
    .recvmmsg = ::recvmmsg,
    .sendmmsg = ::sendmmsg,
    .preadv2 = ::preadv2,
    .pwritev2 = ::pwritev2,
    .splice = ::splice,
    .sendfile = ::sendfile,
    .ioctl = [](int fd, unsigned long request,
                void* argument) { return ::ioctl(fd, request, argument); },
    .ppoll = ::ppoll,
    .pselect = ::pselect,
    .epoll_ctl = ::epoll_ctl,
    .epoll_pwait2 = ::epoll_pwait2,
    .epoll_pwait = ::epoll_pwait,
    .clock_gettime = ::clock_gettime,
};

const SystemCalls& kernel_calls() noexcept { return kKernelCalls; }

}  // namespace berth::internal
