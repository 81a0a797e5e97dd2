// SPDX-License-Identifier: Apache-2.0
#pragma once

// UDP since Linux 2.6.29 (commit 98322f22eca8): each chain is walked at most once, into a bitmap of
// its ports; then a free one is looked for in the bitmap, in steps of a random odd multiple of the
// chain count from a random start.

#include "bench/history/locked_chains.h"

namespace berth::bench {

class ChainBitmap final : public LockedChains {
public:
    explicit ChainBitmap(PortRange range) : LockedChains(range, kChainCount) {}

    bool bind(ModelSocket& socket, Search& search) override;

private:
    static constexpr std::uint32_t kChainCount = 128;

    bool bind_in_chain(ModelSocket& socket, std::uint16_t first, std::uint16_t step);
};

}  // namespace berth::bench
