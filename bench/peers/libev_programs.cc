// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/libev_loop.h"

namespace berth::bench::libev {
namespace {

template <unsigned kBackend>
Program program_over(std::string_view engine) {
    return {.program = "libev",
            .engine = engine,
            .transfer = [](TransferJob& job) -> Result<void> {
                return transfer(job, BERTH_TRY(Loop::open(kBackend)));
            },
            .echo = [](EchoJob& job) -> Result<void> {
                return echo(job, BERTH_TRY(Loop::open(kBackend)));
            },
            .churn = [](ChurnJob& job) -> Result<void> {
                return churn(job, BERTH_TRY(Loop::open(kBackend)));
            },
            .datagrams = [](DatagramsJob& job) -> Result<void> {
                return datagrams(job, BERTH_TRY(Loop::open(kBackend)));
            },
            .wake = [](WakeJob& job) -> Result<void> {
                return wake(job, BERTH_TRY(Loop::open(kBackend)));
            },
            .probe = []() -> Result<void> {
                BERTH_TRY(Loop::open(kBackend));
                return {};
            }};
}

}  // namespace

Result<Loop> Loop::open(unsigned backend) {
    Loop loop(::ev_loop_new(backend | EVFLAG_NOENV));
    if (loop.get() == nullptr) {
        return std::unexpected(Error(Errc::unsupported, "open a libev loop", {}, 0,
                                     "libev or the kernel does not have this backend"));
    }
    return loop;
}

Result<void> Loop::run() {
    ::ev_run(get(), 0);
    return failure_ ? Result<void>(std::unexpected(*failure_)) : Result<void>{};
}

}  // namespace berth::bench::libev

namespace berth::bench {

std::span<const Program> libev_programs() {
    static const Program all[] = {
        libev::program_over<EVBACKEND_SELECT>("select"),
        libev::program_over<EVBACKEND_POLL>("poll"),
        libev::program_over<EVBACKEND_EPOLL>("epoll"),
// From 4.31 on.
#if EV_VERSION_MAJOR > 4 || (EV_VERSION_MAJOR == 4 && EV_VERSION_MINOR >= 31)
        libev::program_over<EVBACKEND_IOURING>("io_uring"),
#endif
    };
    return all;
}

}  // namespace berth::bench
