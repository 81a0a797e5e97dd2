// SPDX-License-Identifier: Apache-2.0
// Why this defines `asio`: see asio_context.h.
#include "bench/peers/asio_programs.h"

#include <boost/version.hpp>

#if BOOST_VERSION >= 107800

// NOLINTBEGIN(readability-identifier-naming): these are Asio's words.
#define BOOST_ASIO_HAS_IO_URING 1
#define BOOST_ASIO_DISABLE_EPOLL 1
#define asio asio_with_io_uring
// NOLINTEND(readability-identifier-naming)

#include "bench/peers/asio_program.h"

namespace berth::bench {

std::optional<Program> asio_io_uring_program() { return asio::make_program("io_uring"); }

}  // namespace berth::bench

#else

namespace berth::bench {

std::optional<Program> asio_io_uring_program() { return std::nullopt; }

}  // namespace berth::bench

#endif
