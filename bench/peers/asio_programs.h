// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the two files that compile Asio give to the list. Nothing of Asio is included here.

#include "bench/programs/program.h"

#include <optional>

namespace berth::bench {

Program asio_epoll_program();
/// Nothing where Boost is older than 1.78, whose Asio has no io_uring.
std::optional<Program> asio_io_uring_program();

}  // namespace berth::bench
