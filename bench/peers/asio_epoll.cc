// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/asio_program.h"
#include "bench/peers/asio_programs.h"

namespace berth::bench {

Program asio_epoll_program() { return asio::make_program("epoll"); }

}  // namespace berth::bench
