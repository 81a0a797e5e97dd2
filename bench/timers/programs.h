// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/timers/subject.h"

#include <berth/error.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace berth::bench {

/// The programs of `berth bench timers`, in the order of its rows; also those that were not there
/// when berth was built.
std::span<const std::string_view> timer_programs() noexcept;

/// False for a peer that was not there when berth was built, and for names of none.
bool is_timer_program_built(std::string_view program) noexcept;

/// `program` with `count` idle timers. **Errors:** invalid_argument for a name of none, unsupported
/// for a program that was not built, and what making its loop answers.
Result<std::unique_ptr<TimerSubject>> make_timer_subject(std::string_view program,
                                                         std::uint32_t count);

// How to make each. A peer's maker exists when BERTH_HAVE_<PEER> is defined.
using TimerSubjectResult = Result<std::unique_ptr<TimerSubject>>;

/// TimerWheel.
TimerSubjectResult make_berth_timers(std::uint32_t count);
/// PreciseTimers: a 4-ary heap with the deadlines beside the pointers.
TimerSubjectResult make_heap_timers(std::uint32_t count);
/// A red-black tree, its nodes from a pool; a node moves without being freed.
TimerSubjectResult make_rbtree_timers(std::uint32_t count);
TimerSubjectResult make_libevent_timers(std::uint32_t count);
TimerSubjectResult make_libuv_timers(std::uint32_t count);
TimerSubjectResult make_libev_timers(std::uint32_t count);
TimerSubjectResult make_asio_timers(std::uint32_t count);

}  // namespace berth::bench
