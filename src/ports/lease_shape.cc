// SPDX-License-Identifier: Apache-2.0
#include "src/ports/lease_shape.h"

namespace berth::internal {
namespace {

// Claims `length` ports from `first`, or none.
bool claim_run(TableCore& core, const Footprint& footprint, std::uint16_t first, unsigned length,
               OwnerWord owner) {
    for (unsigned i = 0; i < length; ++i) {
        if (!core.claim(footprint, static_cast<std::uint16_t>(first + i), owner)) {
            for (unsigned undo = 0; undo < i; ++undo) {
                core.unclaim(footprint, static_cast<std::uint16_t>(first + undo), owner);
            }
            return false;
        }
    }
    return true;
}

// One run of `length` free ports that starts at a multiple of `alignment`.
MaybePort take_run(TableCore& core, const Footprint& footprint, unsigned length, unsigned alignment,
                   OwnerWord owner) {
    constexpr unsigned kAttemptLimit = 64;  // each failure means that another caller succeeded
    for (unsigned attempt = 0; attempt < kAttemptLimit; ++attempt) {
        const auto first = core.draw_run(footprint, length, alignment);
        if (!first) break;
        if (claim_run(core, footprint, *first, length, owner)) {
            return first;
        }
    }
    return {};
}

}  // namespace

std::vector<std::uint16_t> take_shape(TableCore& core, const Footprint& footprint,
                                      const LeaseOptions& options, OwnerWord owner) {
    const bool is_run = options.shape == LeaseShape::consecutive;
    const unsigned length = is_run                                        ? options.count
                            : options.shape == LeaseShape::even_odd_pairs ? 2
                                                                          : 1;
    const unsigned alignment = options.shape == LeaseShape::even_odd_pairs ? 2 : 1;
    std::vector<std::uint16_t> ports;
    while (ports.size() < options.count) {
        const auto first = length == 1 ? core.take(footprint, {}, owner)
                                       : take_run(core, footprint, length, alignment, owner);
        if (!first) {
            for (const std::uint16_t port : ports) core.unclaim(footprint, port, owner);
            return {};
        }
        for (unsigned i = 0; i < length; ++i) {
            ports.push_back(static_cast<std::uint16_t>(*first + i));
        }
    }
    return ports;
}

}  // namespace berth::internal
