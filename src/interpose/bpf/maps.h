// SPDX-License-Identifier: Apache-2.0
#pragma once

// The maps that the programs and the agent share, and the tables in them.

#include "src/interpose/bpf/shared.h"
#include "src/interpose/bpf/table_map.h"

#include <berth/descriptor.h>
#include <berth/error.h>

#include <optional>
#include <string>
#include <vector>

namespace berth::internal::bpf {

struct Maps {
    Descriptor tables;
    Descriptor pairs;
    Descriptor settings;

    /// What `directory` has pinned. **Errors:** not_holder when nothing is attached there,
    /// permission_denied, table_mismatch.
    static Result<Maps> open(const std::string& directory);

    Result<berth_settings> read_settings() const;
    Result<void> write_settings(const berth_settings& settings) const;

    std::vector<berth_table_key> keys() const;
    /// Empty when there is none.
    Result<std::optional<TableMap>> table(const berth_table_key& key) const;
    Result<void> add(const berth_table_key& key, const TableMap& table) const;
    void remove(const berth_table_key& key) const;

    /// Forgets pairs whose TIME_WAIT is over, and those whose port has no connection any more.
    void sweep_pairs() const;
};

/// The cookie of the calling thread's network namespace. **Since kernel:** 5.14.
Result<std::uint64_t> own_netns_cookie();

struct AllowedPorts {
    PortRange range;
    PortWords ports;
    TimeWaitRests time_wait_rests;
};
/// What may be given out in the calling thread's network namespace: the range without reserved,
/// privileged and excluded ports; and when again to the same destination.
Result<AllowedPorts> read_allowed_ports(const berth_settings& settings);

}  // namespace berth::internal::bpf
