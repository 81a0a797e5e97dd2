// SPDX-License-Identifier: Apache-2.0
#pragma once

// What liburing 2.3 (Debian 12) does not name yet, with the values of
// include/uapi/linux/io_uring.h. Each is asked for at run time before it is used.

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace berth::internal {

/// IORING_SETUP_NO_SQARRAY. Since kernel: 6.6.
inline constexpr unsigned kSetupNoSqArray = 1U << 16;

/// IORING_ENTER_ABS_TIMER: the timeout is a point of CLOCK_MONOTONIC. Since kernel: 6.12.
inline constexpr unsigned kEnterAbsoluteTimer = 1U << 5;

/// IORING_ENTER_NO_IOWAIT: waiting does not count as waiting for a disk. Since kernel: 6.15.
inline constexpr unsigned kEnterNoIoWait = 1U << 7;

/// IORING_FEAT_NO_IOWAIT. Since kernel: 6.15.
inline constexpr unsigned kFeatureNoIoWait = 1U << 17;

/// IORING_REGISTER_SEND_MSG_RING: MSG_RING without a ring to send from. Since kernel: 6.13.
inline constexpr unsigned kRegisterSendMessage = 31;

/// MAX_RW_COUNT: of one transfer.
inline constexpr std::size_t kMostBytes = 0x7ffff000;

/// What io_uring_enter() takes with IORING_ENTER_EXT_ARG.
using EnterArgument = io_uring_getevents_arg;

}  // namespace berth::internal
