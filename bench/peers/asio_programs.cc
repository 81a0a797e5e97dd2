// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/asio_programs.h"

#include <vector>

namespace berth::bench {

std::span<const Program> asio_programs() {
    static const std::vector<Program> all = [] {
        std::vector<Program> some = {asio_epoll_program()};
        if (const std::optional<Program> io_uring = asio_io_uring_program()) {
            some.push_back(*io_uring);
        }
        return some;
    }();
    return all;
}

}  // namespace berth::bench
