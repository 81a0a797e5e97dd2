// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loopback servers to connect to, each in a process of its own with its own descriptors: accepts
// everything, keeps it, and closes a connection when the client has gone.

#include "bench/harness/workload.h"

#include <berth/address.h>
#include <berth/error.h>

#include <sys/types.h>

#include <vector>

namespace berth::bench {

class Destinations {
public:
    /// Starts `count` servers on the loopback address. In an own namespace they listen outside of
    /// the port range; on the host wherever the kernel puts them.
    static Result<Destinations> start(unsigned count, Family family,
                                      const Environment& environment);
    Destinations(Destinations&&) = default;
    Destinations& operator=(Destinations&&) = delete;
    /// Ends the servers and waits until they are gone.
    ~Destinations();

    const std::vector<Address>& addresses() const noexcept { return addresses_; }

private:
    Destinations() = default;

    std::vector<Address> addresses_;
    std::vector<pid_t> servers_;
};

}  // namespace berth::bench
