// SPDX-License-Identifier: Apache-2.0
#include "bench/raw/io_uring_jobs.h"
#include "bench/raw/raw_programs.h"
#include "bench/raw/ring.h"

namespace berth::bench::raw {
namespace {

Result<void> probe() {
    Ring ring = BERTH_TRY(Ring::open(8, 16));
    BERTH_TRY(BufferRing::open(ring, 8, 4096, 0));
    return {};
}

}  // namespace

Program io_uring_program() {
    return {.program = "raw",
            .engine = "io_uring",
            .transfer = io_uring_transfer,
            .echo = io_uring_echo,
            .churn = io_uring_churn,
            .datagrams = io_uring_datagrams,
            .wake = io_uring_wake,
            .probe = probe};
}

}  // namespace berth::bench::raw
