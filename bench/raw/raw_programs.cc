// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/raw_programs.h"

namespace berth::bench {

std::span<const Program> raw_programs() {
    static const Program all[] = {
        raw::select_program(),      raw::poll_program(),  raw::poll_linear_program(),
        raw::poll_sorted_program(), raw::epoll_program(), raw::epoll_edge_program(),
        raw::io_uring_program(),
    };
    return all;
}

}  // namespace berth::bench
