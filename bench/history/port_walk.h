// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/assert.h"
#include "src/base/random.h"

#include <berth/socket.h>

#include <cstdint>

namespace berth::bench {

/// The order in which Linux 2.6.28 tries ports: a random start, then steps of a random odd number
/// modulo 65,536, which visit every port once; those outside the range are passed over.
class PortWalk {
public:
    PortWalk(PortRange range, internal::RandomStream& random) noexcept : range_(range) {
        BERTH_ASSERT(range.is_valid());
        const std::uint32_t number = random.next();
        first_ = static_cast<std::uint16_t>(range.first + number % range.size());
        step_ = static_cast<std::uint16_t>(number | 1);
        port_ = first_;
    }

    std::uint16_t port() const noexcept { return port_; }

    /// False when every port has been visited.
    bool advance() noexcept {
        do {
            port_ = static_cast<std::uint16_t>(port_ + step_);
        } while (!range_.contains(port_));
        return port_ != first_;
    }

private:
    PortRange range_;
    std::uint16_t first_;
    std::uint16_t step_;
    std::uint16_t port_;
};

}  // namespace berth::bench
