// SPDX-License-Identifier: Apache-2.0
#pragma once

// The programs over berth: with callbacks, one file for each job, and in coroutines. They use
// nothing that a user of the library does not have.

#include "bench/programs/program.h"

#include <berth/loop.h>

#include <unistd.h>

namespace berth::bench {

Result<void> berth_transfer(TransferJob& job, EngineKind engine);
Result<void> berth_echo(EchoJob& job, EngineKind engine);
Result<void> berth_churn(ChurnJob& job, EngineKind engine);
Result<void> berth_datagrams(DatagramsJob& job, EngineKind engine);
Result<void> berth_wake(WakeJob& job, EngineKind engine);
Result<void> berth_coroutine_transfer(TransferJob& job, EngineKind engine);
Result<void> berth_coroutine_echo(EchoJob& job, EngineKind engine);
Result<void> berth_coroutine_churn(ChurnJob& job, EngineKind engine);
Result<void> berth_coroutine_datagrams(DatagramsJob& job, EngineKind engine);
Result<void> berth_coroutine_wake(WakeJob& job, EngineKind engine);

}  // namespace berth::bench
