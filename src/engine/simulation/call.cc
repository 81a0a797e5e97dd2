// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/call.h"

#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/socket.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace berth::internal::simulated {
namespace {

bool is_reading(CallKind kind) noexcept {
    return kind == CallKind::recv || kind == CallKind::recvmsg || kind == CallKind::recvmmsg ||
           kind == CallKind::preadv2 || kind == CallKind::accept4;
}

bool is_waiting(CallKind kind) noexcept {
    return kind == CallKind::ppoll || kind == CallKind::pselect || kind == CallKind::epoll_pwait2 ||
           kind == CallKind::epoll_pwait;
}

}  // namespace

Call::Call(Kernel& kernel, CallKind kind, int fd, std::size_t size)
    : kernel_(kernel), kind_(kind), fd_(fd), size_(size) {
    kernel.counts.add(kind);
    if (kernel.options.call_duration.count() > 0) {
        kernel.clock.run_until(kernel.clock.now() + kernel.options.call_duration);
    }
}

std::int64_t Call::run(File* file, const std::function<std::int64_t()>& body) {
    if (kernel_.faults.is_active()) {
        decide(file);
    }
    const std::int64_t result = make(file, body);
    kernel_.clock.run_due();
    if (kind_ != CallKind::clock_gettime) {
        kernel_.trace.add(
            {kernel_.counts.total(), kernel_.clock.now(), kind_, fd_, size_, result, fault_});
    }
    watch_for_spinning(result);
    if (result < 0) {
        errno = static_cast<int>(-result);
        return -1;
    }
    return result;
}

void Call::decide(File* file) {
    CallFacts facts;
    facts.kind = kind_;
    facts.fd = fd_;
    facts.size = size_;
    if (file != nullptr) {
        facts.is_byte_stream = file->is_byte_stream();
        facts.is_socket = dynamic_cast<const Socket*>(file) != nullptr;
        facts.is_connection = file->is_connection();
        const bool reads = is_reading(kind_);
        if (reads) {
            facts.size = std::min(size_, file->unread_size());
        }
        facts.is_ready = (file->poll() & (reads ? EPOLLIN : EPOLLOUT)) != 0;
    }
    fault_ = kernel_.faults.decide(facts);
}

std::int64_t Call::make(File* file, const std::function<std::int64_t()>& body) {
    if (fault_.delay.count() > 0) {
        kernel_.clock.run_until(kernel_.clock.now() + fault_.delay);
    }
    if (file != nullptr && fault_.connection_error != 0) {
        file->break_connection(fault_.connection_error);
    }
    // Edges are lost for nobody: see FaultSchedule.
    if (file != nullptr && (fault_.error == EAGAIN || fault_.is_cut())) {
        file->wake_soon();
    }
    if (fault_.error != 0) {
        return -fault_.error;
    }
    const Nanoseconds before = std::exchange(kernel_.lateness, fault_.lateness);
    const std::int64_t result = body();
    kernel_.lateness = before;
    return result;
}

void Call::watch_for_spinning(std::int64_t result) const {
    // A wait achieves something by what follows it: one that finds the same again and again does
    // not.
    const bool is_fruitless =
        kind_ == CallKind::clock_gettime || result == -EAGAIN || is_waiting(kind_);
    const Nanoseconds now = kernel_.clock.now();
    if (!is_fruitless || now != kernel_.fruitless_since) {
        kernel_.fruitless_count = 0;
        kernel_.fruitless_since = now;
    }
    if (++kernel_.fruitless_count > kernel_.options.spin_limit) {
        kernel_.give_up("the program spins: " + std::to_string(kernel_.fruitless_count) +
                        " calls at one point of time achieved nothing");
    }
}

}  // namespace berth::internal::simulated
