// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps connections open, also more than one process may have descriptors for: when it is nearly
// full, a forked helper inherits them all and does nothing but hold them.

#include <berth/descriptor.h>
#include <berth/error.h>

#include <sys/types.h>

#include <vector>

namespace berth::bench {

class ConnectionKeeper {
public:
    /// At most `limit` descriptors stay in this process.
    explicit ConnectionKeeper(std::size_t limit) : limit_(limit) {}
    ConnectionKeeper(const ConnectionKeeper&) = delete;
    ConnectionKeeper& operator=(const ConnectionKeeper&) = delete;
    ~ConnectionKeeper();

    Result<void> keep(Descriptor socket);
    /// Nanoseconds spent on handing over, to be left out of a measured time.
    std::uint64_t overhead_ns() const noexcept { return overhead_ns_; }

private:
    Result<void> hand_over();

    std::size_t limit_;
    std::vector<Descriptor> sockets_;
    std::vector<pid_t> helpers_;
    std::uint64_t overhead_ns_ = 0;
};

}  // namespace berth::bench
