// SPDX-License-Identifier: Apache-2.0
// epoll, level- and edge-triggered: a descriptor is registered once and never changed; close()
// removes it.
#include "bench/raw/raw_programs.h"
#include "bench/raw/readiness.h"

#include <sys/epoll.h>

namespace berth::bench::raw {
namespace {

template <bool IsEdge>
class EpollPoller {
public:
    static constexpr bool kIsEdge = IsEdge;
    static constexpr bool kMustReadWakeup = false;

    static Result<EpollPoller> open(std::size_t) {
        Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
        if (!epoll.is_open()) {
            return last_error("open epoll");
        }
        return EpollPoller(std::move(epoll));
    }

    Result<void> add(int fd, std::uint32_t token, Interest interest) {
        // Without EPOLLRDHUP an end of the stream that comes with the last data has no edge of its
        // own, and a short read would not tell of it.
        constexpr std::uint32_t kRead = IsEdge ? EPOLLIN | EPOLLRDHUP | EPOLLET : EPOLLIN;
        return control(fd, token, interest == Interest::read ? kRead : EPOLLOUT);
    }
    Result<void> add_wakeup(int fd) { return control(fd, 0, EPOLLIN | EPOLLET); }
    void remove(int) {}

    template <class OnReady>
    Result<void> wait(OnReady on_ready) {
        const int count =
            ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), -1);
        if (count < 0) {
            return errno == EINTR ? Result<void>{} : last_error("epoll_wait");
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            const epoll_event& event = events_[i];
            const std::uint64_t data = event.data.u64;
            const std::uint32_t flags = event.events;
            on_ready(Ready{.fd = static_cast<int>(data & 0xffff'ffff),
                           .token = static_cast<std::uint32_t>(data >> 32),
                           .has_input_ended = (flags & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
                           .may_have_failed = (flags & (EPOLLHUP | EPOLLERR)) != 0});
        }
        return {};
    }

private:
    explicit EpollPoller(Descriptor epoll) : epoll_(std::move(epoll)), events_(512) {}

    Result<void> control(int fd, std::uint32_t token, std::uint32_t events) {
        epoll_event event{};
        event.events = events;
        event.data.u64 = std::uint64_t{token} << 32 | static_cast<std::uint32_t>(fd);
        return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? Result<void>{}
                                                                         : last_error("epoll_ctl");
    }

    Descriptor epoll_;
    std::vector<epoll_event> events_;
};

}  // namespace

Program epoll_program() { return readiness_program<EpollPoller<false>>("epoll"); }
Program epoll_edge_program() { return readiness_program<EpollPoller<true>>("epoll-edge"); }

}  // namespace berth::bench::raw
