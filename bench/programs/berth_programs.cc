// SPDX-License-Identifier: Apache-2.0
#include "bench/programs/berth_jobs.h"

#include <array>

namespace berth::bench {
namespace {

template <EngineKind Engine>
Result<void> probe() {
    BERTH_TRY(Loop::create({.engine = Engine}));
    return {};
}

template <EngineKind Engine>
Program berth_program() {
    return {.program = "berth",
            .engine = to_string(Engine),
            .transfer = [](TransferJob& job) { return berth_transfer(job, Engine); },
            .echo = [](EchoJob& job) { return berth_echo(job, Engine); },
            .churn = [](ChurnJob& job) { return berth_churn(job, Engine); },
            .datagrams = [](DatagramsJob& job) { return berth_datagrams(job, Engine); },
            .wake = [](WakeJob& job) { return berth_wake(job, Engine); },
            .probe = probe<Engine>};
}

template <EngineKind Engine>
Program coroutine_program() {
    return {.program = "berth-coroutines",
            .engine = to_string(Engine),
            .transfer = [](TransferJob& job) { return berth_coroutine_transfer(job, Engine); },
            .echo = [](EchoJob& job) { return berth_coroutine_echo(job, Engine); },
            .churn = [](ChurnJob& job) { return berth_coroutine_churn(job, Engine); },
            .datagrams = [](DatagramsJob& job) { return berth_coroutine_datagrams(job, Engine); },
            .wake = [](WakeJob& job) { return berth_coroutine_wake(job, Engine); },
            .probe = probe<Engine>};
}

}  // namespace

std::span<const Program> berth_programs() {
    static const std::array all = {
        berth_program<EngineKind::select>(),     berth_program<EngineKind::poll>(),
        berth_program<EngineKind::epoll>(),      berth_program<EngineKind::io_uring>(),
        coroutine_program<EngineKind::select>(), coroutine_program<EngineKind::poll>(),
        coroutine_program<EngineKind::epoll>(),  coroutine_program<EngineKind::io_uring>()};
    return all;
}

}  // namespace berth::bench
