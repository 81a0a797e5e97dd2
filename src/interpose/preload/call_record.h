// SPDX-License-Identifier: Apache-2.0
#pragma once

// One call that asked for a port, for --stats and --log. Reads no clock when neither is wanted.

#include "src/interpose/preload/guest.h"

#include <cstdint>

namespace berth::internal {

class CallRecord {
public:
    explicit CallRecord(Call call) noexcept;

    void note_protocol(Protocol protocol) noexcept { protocol_ = protocol; }
    void note_port(std::uint16_t port, PortSource source) noexcept {
        port_ = port;
        source_ = source;
    }
    void note_refusal() noexcept { ++refusals_; }
    void note_wait() noexcept { has_waited_ = true; }
    void note_exhaustion() noexcept { is_exhausted_ = true; }
    unsigned refusals() const noexcept { return refusals_; }

    /// `error`: errno of the call, or 0. To be called once, when the call is over.
    void finish(int error) noexcept;

private:
    void count(std::uint64_t cost_ns) noexcept;
    void log(int error, std::uint64_t cost_ns) noexcept;

    Call call_;
    Protocol protocol_ = Protocol::udp;
    PortSource source_ = PortSource::none;
    bool has_waited_ = false;
    bool is_exhausted_ = false;
    std::uint16_t port_ = 0;
    unsigned refusals_ = 0;
    std::uint64_t start_ns_ = 0;
};

}  // namespace berth::internal
