// SPDX-License-Identifier: Apache-2.0
#pragma once

// The client of an echo server, with many connections. In a closed loop it keeps one message under
// way on each of `active` connections; where there are more connections, an answer is followed by a
// message on another one, chosen at random, so that over time all are used and at any moment most
// are idle. In an open loop it sends at a fixed rate and measures latencies.

#include "bench/echo/open_loop.h"
#include "bench/echo/wire.h"
#include "bench/reproducer/latency_histogram.h"

#include <berth/address.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace berth::bench {

struct LoadOutcome {
    std::uint64_t message_count = 0;
    std::uint64_t elapsed_ns = 0;
    bool is_intact = true;  // every answer was the message that was sent, in order
};

class EchoLoad final : private Wire::Sink {
public:
    /// Connects to the addresses of a server in turn, and waits until every connection has answered
    /// once.
    /// **Errors:** what connect() answers; those of the run functions.
    static Result<std::unique_ptr<EchoLoad>> connect(const std::vector<Address>& server,
                                                     unsigned connections, unsigned active,
                                                     std::uint64_t seed);

    /// Ends after the time limit, when all messages are answered.
    /// **Errors:** timed_out, when the server answers nothing for seconds; reset, when it closes.
    Result<LoadOutcome> run_closed(std::chrono::nanoseconds time_limit);
    /// `rate` in messages per second over all connections.
    Result<LoadOutcome> run_open(double rate, std::chrono::nanoseconds duration,
                                 LatencyHistogram& latencies);

private:
    EchoLoad(std::vector<Descriptor> sockets, std::unique_ptr<Wire> wire, unsigned active,
             std::uint64_t seed);
    void received(std::uint32_t connection, std::span<const std::byte> data) override;
    void send(std::uint32_t connection);
    void answered(std::uint32_t connection);
    std::uint32_t next_after(std::uint32_t connection);
    void measure(std::uint32_t connection, unsigned count);
    Result<void> exchange(std::chrono::nanoseconds at_most);
    Result<void> warm_up();
    Result<LoadOutcome> finish(std::uint64_t start_ns);

    std::vector<Descriptor> sockets_;
    std::unique_ptr<Wire> wire_;
    std::vector<AnswerCheck> checks_;        // index = connection
    std::vector<std::uint64_t> sent_count_;  // index = connection
    std::vector<std::uint32_t> idle_;        // connections with nothing under way
    std::vector<std::uint32_t> active_;      // where the next closed loop starts
    std::mt19937_64 random_;

    // Of the run that is going on.
    std::uint64_t messages_sent_ = 0;
    std::uint64_t messages_answered_ = 0;
    std::uint64_t last_answer_ns_ = 0;
    bool is_ending_ = false;
    const OpenLoop* open_loop_ = nullptr;
    std::vector<std::uint64_t> first_number_;  // index = connection; where the open loop started
    LatencyHistogram* latencies_ = nullptr;
    std::uint64_t now_ns_ = 0;
};

}  // namespace berth::bench
