// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/programs/program.h"

namespace berth::bench::raw {

Result<void> io_uring_transfer(TransferJob& job);
Result<void> io_uring_echo(EchoJob& job);
Result<void> io_uring_churn(ChurnJob& job);
Result<void> io_uring_datagrams(DatagramsJob& job);
Result<void> io_uring_wake(WakeJob& job);

}  // namespace berth::bench::raw
