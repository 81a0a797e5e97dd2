// SPDX-License-Identifier: Apache-2.0
#pragma once

// The search of Linux 2.6.28 without its locks: each chain is walked under RCU, and only where the
// port looks free the chain is locked and walked again. Sockets are freed after a grace period.

#include "bench/history/locked_chains.h"

namespace berth::bench {

class RcuRecheck final : public LockedChains {
public:
    explicit RcuRecheck(PortRange range);
    ~RcuRecheck() override;

    ModelSocket* open() override;
    bool bind(ModelSocket& socket, Search& search) override;
    void close(ModelSocket* socket) override;
    void begin_thread() override;
    void end_thread() override;

private:
    static constexpr std::uint32_t kChainCount = 128;
};

}  // namespace berth::bench
