// SPDX-License-Identifier: Apache-2.0
#include "src/loop/embedding.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

namespace berth::internal {
namespace {

int watch(int epoll, int fd) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Result<void> Embedding::open(int engine_descriptor) {
    Descriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    Descriptor outer(timer.is_open() ? ::epoll_create1(EPOLL_CLOEXEC) : -1);
    if (!outer.is_open() || watch(outer.get(), timer.get()) != 0 ||
        watch(outer.get(), engine_descriptor) != 0) {
        return std::unexpected(Error::from_errno(errno, "open", "the loop's descriptor"));
    }
    timer_ = std::move(timer);
    outer_ = std::move(outer);
    return {};
}

void Embedding::set_next(std::uint64_t deadline_ns) noexcept {
    // Readable it stays: nobody reads the timer.
    if (deadline_ns == 0 && next_ns_ == 0) {
        return;
    }
    next_ns_ = deadline_ns;
    itimerspec when{};
    if (deadline_ns != ~std::uint64_t{0}) {
        // All zeros would switch the timer off.
        const std::uint64_t at_ns = std::max<std::uint64_t>(deadline_ns, 1);
        when.it_value.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000);
        when.it_value.tv_nsec = static_cast<long>(at_ns % 1'000'000'000);
    }
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace berth::internal
