// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/program.h"

namespace berth::bench {
namespace {

constexpr std::string_view kProgramNames[] = {
    "raw", "berth", "berth-coroutines", "libevent", "libuv", "libev", "asio"};
constexpr std::string_view kEngineNames[] = {"select", "poll",       "poll-linear", "poll-sorted",
                                             "epoll",  "epoll-edge", "io_uring"};

std::vector<Program> collect() {
    std::vector<Program> all;
    const auto add = [&all](std::span<const Program> some) {
        all.insert(all.end(), some.begin(), some.end());
    };
    add(raw_programs());
#ifdef BERTH_HAVE_BERTH
    add(berth_programs());
#endif
#ifdef BERTH_HAVE_LIBEVENT
    add(libevent_programs());
#endif
#ifdef BERTH_HAVE_LIBUV
    add(libuv_programs());
#endif
#ifdef BERTH_HAVE_LIBEV
    add(libev_programs());
#endif
#ifdef BERTH_HAVE_ASIO
    add(asio_programs());
#endif
    return all;
}

}  // namespace

std::span<const std::string_view> program_names() noexcept { return kProgramNames; }
std::span<const std::string_view> engine_names() noexcept { return kEngineNames; }

std::span<const Program> programs() {
    static const std::vector<Program> all = collect();
    return all;
}

}  // namespace berth::bench
