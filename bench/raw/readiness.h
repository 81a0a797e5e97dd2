// SPDX-License-Identifier: Apache-2.0
#pragma once

// The programs over a readiness engine, which is a Poller.

#include "bench/raw/readiness_churn.h"
#include "bench/raw/readiness_echo.h"
#include "bench/raw/readiness_flows.h"
#include "bench/raw/readiness_transfer.h"

namespace berth::bench::raw {

/// The Program of one Poller.
template <class Poller>
Program readiness_program(std::string_view engine) {
    return {.program = "raw",
            .engine = engine,
            .transfer = [](TransferJob& job) -> Result<void> {
                Poller poller = BERTH_TRY(Poller::open(job.sockets.size()));
                return TransferClient<Poller>(job, std::move(poller)).run();
            },
            .echo = [](EchoJob& job) -> Result<void> {
                Poller poller = BERTH_TRY(Poller::open(job.connection_count));
                return EchoServer<Poller>(job, std::move(poller)).run();
            },
            .churn = [](ChurnJob& job) -> Result<void> {
                Poller poller = BERTH_TRY(Poller::open(job.parallel_count));
                return ChurnClient<Poller>(job, std::move(poller)).run();
            },
            .datagrams = [](DatagramsJob& job) -> Result<void> {
                Poller poller = BERTH_TRY(Poller::open(1));
                return job.is_sender ? send_datagrams(job, std::move(poller))
                                     : receive_datagrams(job, std::move(poller));
            },
            .wake = [](WakeJob& job) -> Result<void> {
                return run_wake(job, BERTH_TRY(Poller::open(1)));
            },
            .probe = nullptr};
}

}  // namespace berth::bench::raw
