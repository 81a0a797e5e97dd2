// SPDX-License-Identifier: Apache-2.0
#pragma once

// Leases: ports reserved without a socket until a deadline. The lease itself is an entry of the
// table; its ports carry the entry's word as their owner. So a lease needs no living process, and
// a port's owner word says at once which lease it belongs to and whether that lease still exists
// (an entry that was used again has another generation).

#include "src/ports/table_core.h"

#include <berth/error.h>
#include <berth/ports.h>

#include <chrono>
#include <cstdint>

namespace berth::internal {

/// **Errors:** invalid_argument, ports_exhausted (without figures), too_many_leases.
Result<Lease> grant_lease(TableCore& core, const LeaseOptions& options);

/// Makes the leased `port` the property of `owner` in both families' wildcard spaces.
/// **Errors:** not_holder, lease_expired.
Result<Footprint> claim_leased(TableCore& core, std::uint16_t port, std::uint64_t token,
                               OwnerWord owner);

/// **Errors:** not_holder, lease_expired, invalid_argument.
Result<std::chrono::nanoseconds> renew_lease(TableCore& core, std::uint64_t token,
                                             std::chrono::milliseconds expires_in);

/// **Errors:** not_holder.
Result<void> give_back_lease(TableCore& core, std::uint64_t token);

/// Frees the ports of every lease whose deadline has passed, and those whose lease is gone or was
/// never finished. Returns how many.
std::uint32_t expire_leases(TableCore& core) noexcept;

/// True while the lease that the owner word names exists and has not expired.
bool is_valid_lease(const TableHeader& header, OwnerWord word) noexcept;

/// How many ports are leased now.
std::uint32_t count_leased(const TableCore& core) noexcept;

}  // namespace berth::internal
