// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps the tables of a cgroup true: one for each protocol and network namespace in it, made when
// the namespace is first seen and removed when it has gone; each compared with the kernel, and only
// then valid for a while. When nobody looks any more, the programs step aside: a table that is
// wrong would refuse what the kernel would give.

#include "src/interpose/bpf/maps.h"
#include "src/interpose/bpf/sync.h"

#include <berth/error.h>

#include <map>
#include <string>

namespace berth::internal::bpf {

/// How long a table stays valid after a look.
inline constexpr std::uint32_t kValidMs = 10'000;

struct LookReport {
    unsigned namespace_count = 0;
    unsigned new_count = 0;      // namespaces that were not known
    unsigned skipped_count = 0;  // namespaces that could not be entered or read
    SyncReport sync;             // of all tables together
};

class Keeper {
public:
    Keeper(Maps maps, const berth_settings& settings);

    /// One look at everything. **Cost:** a readlink for each process in the cgroup, and a Sync for
    /// each table. **Errors:** system, when the cgroup cannot be read; what concerns one namespace
    /// alone is counted.
    Result<LookReport> look();
    /// Whether ports have run out in one of the tables since the last call.
    bool is_asked() const;
    /// How long the last look took.
    std::uint64_t look_ms() const noexcept { return look_ms_; }
    const Maps& maps() const noexcept { return maps_; }

private:
    struct Known {
        explicit Known(Protocol protocol, TableMap map) : table(std::move(map)), sync(protocol) {}
        TableMap table;
        Sync sync;
        unsigned missed_count = 0;  // looks that have not found the namespace
    };
    using Key = std::pair<std::uint64_t, std::uint32_t>;  // namespace cookie, protocol

    Result<void> look_here(LookReport& report);
    Result<bool> keep_table(std::uint64_t cookie, Protocol protocol, const AllowedPorts& allowed,
                            LookReport& report);
    Result<Known*> find_or_make(std::uint64_t cookie, Protocol protocol,
                                const AllowedPorts& allowed);
    void forget_gone();

    Maps maps_;
    berth_settings settings_;
    std::map<Key, Known> known_;
    std::uint64_t look_ms_ = 0;
    std::uint64_t next_pair_sweep_ms_ = 0;
};

}  // namespace berth::internal::bpf
