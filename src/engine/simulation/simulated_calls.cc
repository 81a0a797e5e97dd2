// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/simulated_calls.h"

namespace berth::internal::simulated {

constinit Kernel* active_kernel = nullptr;

namespace {

// A call that is not here is the kernel's own.
SystemCalls make_table() noexcept {
    SystemCalls calls = kKernelCalls;
    calls.socket = socket;
    calls.bind = bind;
    calls.connect = connect;
    calls.getsockname = getsockname;
    calls.getsockopt = getsockopt;
    calls.setsockopt = setsockopt;
    calls.sendto = sendto;
    calls.recv = recv;
    calls.listen = listen;
    calls.accept4 = accept4;
    calls.shutdown = shutdown;
    calls.close = close;
    calls.getpeername = getpeername;
    calls.send = send;
    calls.recvmsg = recvmsg;
    calls.sendmsg = sendmsg;
    calls.recvmmsg = recvmmsg;
    calls.sendmmsg = sendmmsg;
    calls.preadv2 = preadv2;
    calls.pwritev2 = pwritev2;
    calls.splice = splice;
    calls.sendfile = sendfile;
    calls.ioctl = ioctl;
    calls.ppoll = ppoll;
    calls.pselect = pselect;
    calls.epoll_ctl = epoll_ctl;
    calls.epoll_pwait2 = epoll_pwait2;
    calls.epoll_pwait = epoll_pwait;
    calls.clock_gettime = clock_gettime;
    return calls;
}

}  // namespace

const SystemCalls& simulated_calls() noexcept {
    static const SystemCalls table = make_table();
    return table;
}

}  // namespace berth::internal::simulated
