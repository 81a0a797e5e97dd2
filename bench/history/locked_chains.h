// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/history/chains.h"
#include "bench/history/port_model.h"

namespace berth::bench {

/// What the models with a lock for each chain share: all but the search.
class LockedChains : public PortModel {
public:
    LockedChains(PortRange range, std::uint32_t chain_count)
        : PortModel(range), chains_(chain_count) {}

    void close(ModelSocket* socket) override;

protected:
    void bind_free_port(ModelSocket& socket, std::uint16_t port) override;

    Chains chains_;  // each slot protected by its lock
};

}  // namespace berth::bench
