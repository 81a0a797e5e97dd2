// SPDX-License-Identifier: Apache-2.0
#pragma once

// UDP in Linux 2.6.28 (commit 9088c5609584): random ports, each tried for itself: lock its chain,
// walk it, unlock. With 28,232 ports in 128 chains a search that fails walks 28,232 chains of 220
// sockets. The same with 1,024 chains, and with a mutex around the search, are what was proposed
// when that turned out to be slow.

#include "bench/history/locked_chains.h"

#include <mutex>

namespace berth::bench {

class OneTryPerPort final : public LockedChains {
public:
    struct Options {
        std::uint32_t chain_count = 128;
        bool one_search_at_a_time = false;
    };
    OneTryPerPort(PortRange range, const Options& options)
        : LockedChains(range, options.chain_count),
          one_search_at_a_time_(options.one_search_at_a_time) {}

    bool bind(ModelSocket& socket, Search& search) override;

private:
    bool find_port(ModelSocket& socket, Search& search);

    const bool one_search_at_a_time_;
    std::mutex searching_;
};

}  // namespace berth::bench
