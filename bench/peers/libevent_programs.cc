// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libevent_base.h"

#include <event2/thread.h>

#include <sys/select.h>

namespace berth::bench::libevent {
namespace {

constexpr std::string_view kMethodNames[] = {"select", "poll", "epoll"};

constexpr std::string_view name_of(Method method) noexcept {
    return kMethodNames[static_cast<std::size_t>(method)];
}

// libev has functions of the same names, and of two libraries the first one that was linked is
// called.
Result<void> probe() {
    if (std::string_view(::event_get_version()) == LIBEVENT_VERSION) {
        return {};
    }
    return std::unexpected(Error(Errc::unsupported, "use libevent", ::event_get_version(), 0,
                                 "another library's functions have taken its place"));
}

template <Method kMethod>
Program program_over() {
    return {.program = "libevent",
            .engine = name_of(kMethod),
            .transfer = [](TransferJob& job) -> Result<void> {
                return transfer(job, BERTH_TRY(Base::open(kMethod)));
            },
            .echo = [](EchoJob& job) -> Result<void> {
                return echo(job, BERTH_TRY(Base::open(kMethod)));
            },
            .churn = [](ChurnJob& job) -> Result<void> {
                return churn(job, BERTH_TRY(Base::open(kMethod)));
            },
            .datagrams = [](DatagramsJob& job) -> Result<void> {
                return datagrams(job, BERTH_TRY(Base::open(kMethod)));
            },
            .wake = [](WakeJob& job) -> Result<void> {
                return wake(job, BERTH_TRY(Base::open(kMethod, UsedBy::many_threads)));
            },
            .probe = probe};
}

}  // namespace

Result<Base> Base::open(Method method, UsedBy used_by) {
    if (used_by == UsedBy::many_threads && ::evthread_use_pthreads() != 0) {
        return std::unexpected(Error(Errc::system, "make libevent's locks"));
    }
    const std::unique_ptr<event_config, decltype(&::event_config_free)> config(::event_config_new(),
                                                                               ::event_config_free);
    if (config == nullptr) {
        return std::unexpected(Error(Errc::out_of_memory, "open an event_base"));
    }
    for (const std::string_view name : kMethodNames) {
        if (name != name_of(method)) {
            ::event_config_avoid_method(config.get(), name.data());
        }
    }
    ::event_config_set_flag(config.get(), EVENT_BASE_FLAG_IGNORE_ENV);
    if (used_by == UsedBy::one_thread) {
        ::event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    }
    Base base(::event_base_new_with_config(config.get()));
    if (base.base_ == nullptr || ::event_base_get_method(base.get()) != name_of(method)) {
        return std::unexpected(Error(Errc::unsupported, "open an event_base", name_of(method)));
    }
    return base;
}

// libevent's sets grow, but it is built with the C library's checks, which end the program at the
// first descriptor that is beyond an fd_set.
Result<void> Base::check(int fd) const {
    if (fd < FD_SETSIZE || ::event_base_get_method(get()) != name_of(Method::select)) {
        return {};
    }
    return std::unexpected(
        Error(Errc::unsupported, "add an event", {}, 0,
              "libevent's select() takes no descriptor from 1,024 (FD_SETSIZE) on"));
}

Result<void> Base::add(event& watch, int fd, int what, event_callback_fn callback, void* argument) {
    BERTH_TRY(check(fd));
    if (::event_assign(&watch, get(), fd, static_cast<short>(what), callback, argument) != 0 ||
        ::event_add(&watch, nullptr) != 0) {
        return std::unexpected(Error::from_errno(errno, "add an event"));
    }
    return {};
}

Result<void> Base::run(int flags) {
    if (::event_base_loop(get(), flags) < 0 && !failure_) {
        failure_ = Error::from_errno(errno, "dispatch events");
    }
    return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
}

}  // namespace berth::bench::libevent

namespace berth::bench {

std::span<const Program> libevent_programs() {
    using libevent::Method;
    static const Program all[] = {libevent::program_over<Method::select>(),
                                  libevent::program_over<Method::poll>(),
                                  libevent::program_over<Method::epoll>()};
    return all;
}

}  // namespace berth::bench
