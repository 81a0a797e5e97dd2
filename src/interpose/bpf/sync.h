// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares a table with the kernel's list of sockets and mends it: what no hook has told (see
// berth.bpf.c). The list is made while sockets come and go, so a port is judged only when its owner
// was the same before the list and after it; that a socket is missing counts the second time.

#include "src/interpose/bpf/table_map.h"

#include <berth/error.h>

#include <memory>
#include <vector>

namespace berth::internal::bpf {

struct SyncReport {
    unsigned found = 0;      // ports that sockets hold which no hook has seen
    unsigned freed = 0;      // ports whose holder is gone, or that rested in vain
    unsigned recovered = 0;  // ports that were neither free nor anybody's
    unsigned settled = 0;    // pending ports whose bind had failed
};

class Sync {
public:
    explicit Sync(Protocol protocol) : protocol_(protocol) {}

    /// In the table's network namespace. **Errors:** as read_kernel_sockets().
    /// **Cost:** 0.5 ms and about 0.6 us per socket.
    Result<SyncReport> run(const TableMap& table);

private:
    struct Seen {
        std::unique_ptr<PortWords> used = std::make_unique<PortWords>();     // by a socket
        std::unique_ptr<PortWords> waiting = std::make_unique<PortWords>();  // in TIME_WAIT only
        bool is_complete = false;
    };
    Result<Seen> look() const;
    void note_before(const TableMap& table);
    void judge(const TableMap& table, const Seen& seen, unsigned port);
    void judge_used(const TableMap& table, unsigned port, std::uint64_t owner);
    void judge_waiting(const TableMap& table, unsigned port, std::uint64_t owner);
    void judge_unused(const TableMap& table, unsigned port, std::uint64_t owner);
    void judge_nobodys(const TableMap& table, unsigned port);
    bool is_missing_again(unsigned port, std::uint64_t owner);

    Protocol protocol_;
    SyncReport report_;
    std::vector<std::uint64_t> owners_;   // before the list, by port
    std::vector<std::uint64_t> missing_;  // the owner whose socket was missing last time, by port
    PortWords rested_{};                  // rested lengthily before the list
    PortWords idle_{};                    // neither free nor resting nor owned before the list
    PortWords was_idle_{};                // the same last time
};

}  // namespace berth::internal::bpf
