// SPDX-License-Identifier: Apache-2.0
#pragma once

// The floor: what a program costs whose author has written the system calls out by hand and knows
// the engine well. The four readiness engines share their programs (readiness.h) and differ in a
// Poller each; io_uring has programs of its own. Everything is templates and inlines, so that the
// sharing costs nothing.

#include "bench/programs/program.h"

namespace berth::bench::raw {

Program select_program();
Program poll_program();
Program poll_linear_program();
Program poll_sorted_program();
Program epoll_program();
Program epoll_edge_program();
Program io_uring_program();

}  // namespace berth::bench::raw
