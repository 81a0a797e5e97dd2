// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/epoll_instance.h"
#include "src/engine/simulation/simulated_calls.h"
#include "src/engine/simulation/wait.h"

#include <algorithm>
#include <span>

namespace berth::internal::simulated {
namespace {

struct EventRoom {
    epoll_event* events;
    int count;
};

int wait_on_epoll(CallKind kind, int epoll, const EventRoom& room, const timespec* timeout) {
    const auto size = static_cast<std::size_t>(std::max(room.count, 0));
    const auto body = [&](File& file, const Call& call) -> std::int64_t {
        auto* instance = dynamic_cast<EpollInstance*>(&file);
        if (instance == nullptr || size == 0) {
            return -EINVAL;
        }
        return wait_epoll(*active_kernel, *instance, std::span(room.events, size), timeout,
                          call.fault().is_spurious_readiness);
    };
    return static_cast<int>(on_file(kind, epoll, size, body));
}

}  // namespace

// A wait takes virtual time also when all its descriptors are real: what is left of a loop whose
// sockets are closed is its wake-up.
int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t*) {
    const std::span<pollfd> span(descriptors, count);
    Call call(*active_kernel, CallKind::ppoll, -1, count);
    return static_cast<int>(call.run(nullptr, [&]() -> std::int64_t {
        return wait_poll(*active_kernel, span, timeout, call.fault().is_spurious_readiness);
    }));
}

int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
            const sigset_t*) {
    const SelectSets sets{count, read, write, except};
    Call call(*active_kernel, CallKind::pselect, -1, static_cast<std::size_t>(std::max(count, 0)));
    return static_cast<int>(call.run(nullptr, [&]() -> std::int64_t {
        return wait_select(*active_kernel, sets, timeout, call.fault().is_spurious_readiness);
    }));
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
    if (!is_simulated(epoll)) {
        return kKernelCalls.epoll_ctl(epoll, operation, fd, event);
    }
    const auto body = [&](File& file, const Call&) -> std::int64_t {
        auto* instance = dynamic_cast<EpollInstance*>(&file);
        const std::shared_ptr<File> watched = active_kernel->descriptors.find(fd);
        if (watched == nullptr) {
            return is_simulated(fd) ? -EBADF : -EPERM;
        }
        return instance == nullptr ? -EINVAL : instance->control(operation, fd, watched, event);
    };
    return static_cast<int>(on_file(CallKind::epoll_ctl, epoll, 0, body));
}

int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* timeout,
                 const sigset_t* mask) {
    if (!is_simulated(epoll)) {
        return kKernelCalls.epoll_pwait2(epoll, events, count, timeout, mask);
    }
    return wait_on_epoll(CallKind::epoll_pwait2, epoll, {events, count}, timeout);
}

int epoll_pwait(int epoll, epoll_event* events, int count, int timeout_ms, const sigset_t* mask) {
    if (!is_simulated(epoll)) {
        return kKernelCalls.epoll_pwait(epoll, events, count, timeout_ms, mask);
    }
    const timespec timeout = to_timespec(std::chrono::milliseconds(std::max(timeout_ms, 0)));
    return wait_on_epoll(CallKind::epoll_pwait, epoll, {events, count},
                         timeout_ms < 0 ? nullptr : &timeout);
}

int clock_gettime(clockid_t clock, timespec* time) {
    const std::optional<timespec> now = active_kernel->clock.read(clock);
    if (!now) {
        return kKernelCalls.clock_gettime(clock, time);
    }
    Call call(*active_kernel, CallKind::clock_gettime, -1);
    return static_cast<int>(call.run(nullptr, [&]() -> std::int64_t {
        *time = active_kernel->clock.read(clock).value_or(*now);
        return 0;
    }));
}

}  // namespace berth::internal::simulated
