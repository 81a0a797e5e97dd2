// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/sync.h"

#include "src/ports/kernel_view.h"

#include <netinet/tcp.h>

#include <utility>

namespace berth::internal::bpf {
namespace {

std::uint64_t kernel_owner() noexcept {
    return std::uint64_t{BERTH_KERNEL} << BERTH_KIND_SHIFT | (monotonic_ms() & BERTH_VALUE_MASK);
}

bool is_overdue(std::uint64_t pending_owner) noexcept {
    return value_of(pending_owner) + BERTH_LEASE_MS < monotonic_ms();
}

bool is_idle(const TableMap& table, unsigned port, std::uint64_t owner) noexcept {
    return owner == 0 && table.is_allowed(port) && !table.is_free(port) &&
           !table.is_resting(port, false) && !table.is_resting(port, true);
}

}  // namespace

Result<Sync::Seen> Sync::look() const {
    const KernelSockets kernel = BERTH_TRY(read_kernel_sockets(protocol_));
    Seen seen;
    for (const KernelSocket& socket : kernel.sockets) {
        const bool is_waiting = protocol_ == Protocol::tcp && socket.tcp_state == TCP_TIME_WAIT;
        add_port(is_waiting ? *seen.waiting : *seen.used, socket.local.port());
    }
    seen.is_complete = kernel.saw_bound_only && !kernel.was_interrupted;
    return seen;
}

void Sync::note_before(const TableMap& table) {
    owners_.resize(BERTH_PORTS);
    missing_.resize(BERTH_PORTS);
    was_idle_ = std::exchange(idle_, {});
    rested_ = {};
    for (unsigned port = 1; port < BERTH_PORTS; ++port) {
        owners_[port] = table.owner(port);
        if (owners_[port] != 0 || !table.is_allowed(port) || table.is_free(port)) continue;
        if (table.is_resting(port, true)) {
            add_port(rested_, port);
        } else if (is_idle(table, port, owners_[port])) {
            add_port(idle_, port);
        }
    }
}

Result<SyncReport> Sync::run(const TableMap& table) {
    report_ = {};
    note_before(table);
    const Seen seen = BERTH_TRY(look());
    for (unsigned port = 1; port < BERTH_PORTS; ++port) {
        judge(table, seen, port);
    }
    table.recount();
    return report_;
}

void Sync::judge(const TableMap& table, const Seen& seen, unsigned port) {
    const std::uint64_t owner = table.owner(port);
    if (has_port(*seen.used, port)) {
        missing_[port] = 0;
        judge_used(table, port, owner);
    } else if (owner != owners_[port]) {
        missing_[port] = 0;
    } else if (has_port(*seen.waiting, port)) {
        judge_waiting(table, port, owner);
    } else if (seen.is_complete) {
        judge_unused(table, port, owner);
    }
}

// The kernel has it in TIME_WAIT only: it rests, so that a connection to another destination can
// share it.
void Sync::judge_waiting(const TableMap& table, unsigned port, std::uint64_t owner) {
    const bool is_gone =
        kind_of(owner) == BERTH_KERNEL || (owner != 0 && is_missing_again(port, owner));
    if (owner != 0 && (!is_gone || !table.replace_owner(port, owner, 0))) {
        return;
    }
    if (kind_of(owner) == BERTH_PENDING) table.note_settled();
    table.take_free(port);
    if (!table.is_resting(port, true)) table.put_to_rest(port, true);
}

void Sync::judge_used(const TableMap& table, unsigned port, std::uint64_t owner) {
    const bool is_unknown = owner == 0 && owners_[port] == 0;
    const bool is_late = kind_of(owner) == BERTH_PENDING && is_overdue(owner);
    if ((!is_unknown && !is_late) || !table.replace_owner(port, owner, kernel_owner())) {
        return;
    }
    if (is_late) {
        table.note_settled();
        ++report_.settled;
        return;
    }
    ++report_.found;
    table.take_free(port);
    table.forget_rest(port, false);
    table.forget_rest(port, true);
}

bool Sync::is_missing_again(unsigned port, std::uint64_t owner) {
    return std::exchange(missing_[port], owner) == owner;
}

void Sync::judge_unused(const TableMap& table, unsigned port, std::uint64_t owner) {
    switch (kind_of(owner)) {
        case BERTH_NOBODY:
            judge_nobodys(table, port);
            return;
        case BERTH_PENDING:
            if (is_overdue(owner) && table.replace_owner(port, owner, 0)) {
                table.note_settled();
                table.put_to_rest(port, false);
                ++report_.settled;
            }
            return;
        default:
            if (is_missing_again(port, owner) && table.replace_owner(port, owner, 0)) {
                table.put_free(port);
                ++report_.freed;
            }
    }
}

void Sync::judge_nobodys(const TableMap& table, unsigned port) {
    if (has_port(rested_, port)) {
        table.forget_rest(port, true);
        table.put_free(port);
        ++report_.freed;
    } else if (has_port(idle_, port) && has_port(was_idle_, port) && is_idle(table, port, 0)) {
        table.put_free(port);
        ++report_.recovered;
    }
}

}  // namespace berth::internal::bpf
