// SPDX-License-Identifier: Apache-2.0
#pragma once

// UDP up to Linux 2.6.24 (udp_get_port): the whole table is under one lock; the shortest of 128
// chains is looked for, starting at a rover that stays where the last search ended, then that
// chain is tried in steps of 128. The ports follow one another; and since only one chain is tried,
// the search can fail while another has a free port.

#include "bench/history/chains.h"
#include "bench/history/port_model.h"

#include <optional>

namespace berth::bench {

class ShortestChain final : public PortModel {
public:
    explicit ShortestChain(PortRange range);

    bool bind(ModelSocket& socket, Search& search) override;
    void close(ModelSocket* socket) override;

protected:
    void bind_free_port(ModelSocket& socket, std::uint16_t port) override;

private:
    std::uint32_t find_shortest(Search& search);
    std::uint32_t fold_back(std::uint32_t port) const noexcept;

    ChainLock lock_;
    Chains chains_;  // protected by lock_, as is the rover
    std::uint32_t rover_;
};

}  // namespace berth::bench
