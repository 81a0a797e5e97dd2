// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/peers/asio_flows.h"
#include "bench/peers/asio_streams.h"

namespace berth::bench::asio {

/// The Program over the engine that Asio was compiled for.
inline Program make_program(std::string_view engine) {
    return {.program = "asio",
            .engine = engine,
            .transfer = [](TransferJob& job) { return run_job<TransferClient>(job); },
            .echo = [](EchoJob& job) { return run_job<EchoServer>(job); },
            .churn = [](ChurnJob& job) -> Result<void> {
                if (job.ports != nullptr) {
                    return std::unexpected(Error(Errc::unsupported, "connect with a port table"));
                }
                return run_job<ChurnClient>(job);
            },
            .datagrams = [](DatagramsJob& job) -> Result<void> {
                if (job.mode != DatagramMode::single) {
                    return std::unexpected(
                        Error(Errc::unsupported, "exchange several datagrams in one call"));
                }
                return run_job<Flow>(job);
            },
            .wake = [](WakeJob& job) { return run_job<WakeLoop>(job); },
            .probe = []() -> Result<void> {
                try {
                    const net::io_context context(kOneThread);
                    return {};
                } catch (const boost::system::system_error& thrown) {
                    return std::unexpected(error_of("open an io_context", thrown.code()));
                }
            }};
}

}  // namespace berth::bench::asio
