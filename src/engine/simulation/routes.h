// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/simulation/simulation_options.h"

#include <berth/address.h>

#include <utility>
#include <vector>

namespace berth::internal::simulated {

/// Which addresses are the host's own, and what happens to packets for the others.
class Routes {
public:
    explicit Routes(const SimulationOptions& options);

    /// Whether a socket may bind to it.
    bool is_own(const Address& host) const;
    Route to(const Address& host) const;
    void set(const Address& host, Route route);
    /// The local address of a socket that is to talk to `remote`.
    Address source_for(const Address& remote) const;

private:
    std::vector<Address> own_;
    std::vector<std::pair<Address, Route>> special_;
    Route default_route_;
};

/// For a wildcard destination the kernel takes the loopback address.
Address destination_of(const Address& asked);

}  // namespace berth::internal::simulated
