// SPDX-License-Identifier: Apache-2.0
#include "bench/timers/programs.h"

#include <algorithm>
#include <array>

namespace berth::bench {
namespace {

using Maker = TimerSubjectResult (*)(std::uint32_t count);

constexpr std::array<std::string_view, 7> kNames = {
    "berth", "libevent", "libuv", "libev", "asio", "heap", "rbtree",
};
// Null: not built.
constexpr std::array<Maker, kNames.size()> kMakers = {
    make_berth_timers,
#ifdef BERTH_HAVE_LIBEVENT
    make_libevent_timers,
#else
    nullptr,
#endif
#ifdef BERTH_HAVE_LIBUV
    make_libuv_timers,
#else
    nullptr,
#endif
#ifdef BERTH_HAVE_LIBEV
    make_libev_timers,
#else
    nullptr,
#endif
#ifdef BERTH_HAVE_ASIO
    make_asio_timers,
#else
    nullptr,
#endif
    make_heap_timers,     make_rbtree_timers,
};

std::size_t index_of(std::string_view program) noexcept {
    return static_cast<std::size_t>(std::ranges::find(kNames, program) - kNames.begin());
}

}  // namespace

std::span<const std::string_view> timer_programs() noexcept { return kNames; }

bool is_timer_program_built(std::string_view program) noexcept {
    const std::size_t index = index_of(program);
    return index < kMakers.size() && kMakers[index] != nullptr;
}

TimerSubjectResult make_timer_subject(std::string_view program, std::uint32_t count) {
    const std::size_t index = index_of(program);
    if (index == kNames.size()) {
        return std::unexpected(
            Error(Errc::invalid_argument, "bench timers", program, 0, "no such program"));
    }
    if (kMakers[index] == nullptr) {
        return std::unexpected(Error(Errc::unsupported, "bench timers", program, 0,
                                     "its package was not there when berth was built"));
    }
    return kMakers[index](count);
}

}  // namespace berth::bench
