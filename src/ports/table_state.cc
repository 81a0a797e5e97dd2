// SPDX-License-Identifier: Apache-2.0
#include "src/ports/table_state.h"

#include "src/base/assert.h"
#include "src/ports/lease_book.h"
#include "src/ports/namespace_settings.h"
#include "src/ports/reconcile.h"
#include "src/ports/sweep.h"

#include <algorithm>

namespace berth::internal {
namespace {

constexpr std::uint16_t kWithoutPort = 0;

void exclude(TableHeader& header, PortRange range) noexcept {
    for (unsigned port = range.first; port <= range.last; ++port) {
        header.excluded[port / 64].fetch_or(bit_of(static_cast<std::uint16_t>(port)),
                                            std::memory_order_relaxed);
    }
}

// The kernel ignores IP_LOCAL_PORT_RANGE where it lies outside the namespace's range.
bool is_within_namespace_range(const TableCore& core) {
    const TableConstants& constants = core.header().constants;
    if (constants.explicit_first == 0) {
        return true;
    }
    const auto settings = read_namespace_settings();
    return !settings || (settings->range.contains(constants.explicit_first) &&
                         settings->range.contains(constants.explicit_last));
}

}  // namespace

TableState::TableState(TableMemory memory, const TableOptions& options) noexcept
    : memory_(std::move(memory)),
      core_(memory_.layout()),
      protocol_(static_cast<Protocol>(memory_.layout().header.constants.protocol)),
      recheck_interval_ms_(static_cast<std::uint64_t>(options.recheck_interval.count())) {}

TableState::~TableState() { delete destinations_.load(std::memory_order_acquire); }

Result<std::unique_ptr<TableState>> TableState::make(TableMemory memory,
                                                     const TableOptions& options) {
    const bool is_new = memory.is_new();
    std::unique_ptr<TableState> state(new TableState(std::move(memory), options));
    if (is_new) {
        for (const PortRange& range : options.excluded) exclude(state->core_.header(), range);
        BERTH_TRY(refresh_allowed(state->core_));
        state->memory_.publish();
        if (options.reconcile_at_start) {
            BERTH_TRY(state->reconcile());
        }
    }
    state->lacks_port_range_option_ = !is_within_namespace_range(state->core_);
    return state;
}

void TableState::release(Port& port) noexcept {
    const std::uint16_t number = std::exchange(port.number_, kWithoutPort);
    if (port.spaces_ == Port::kNoSpaces || without_claim(port.owner_) != own_word()) {
        return;  // a guest, or a forked child's copy of its parent's port
    }
    const std::uint32_t other_space = port.spaces_ >> 8;
    const Footprint footprint = {{port.spaces_ & 0xff, other_space},
                                 other_space == Port::kNoSpace ? 1U : 2U};
    if (footprint.takes[0] / 2 != kConnectedSpace / 2) {
        core_.release(footprint, number, port.owner_);
        return;
    }
    core_.remove_connection(static_cast<Family>(footprint.takes[0] - kConnectedSpace), number);
    if (port.destination_ != nullptr) {
        port.destination_->release(number, coarse_now_ms(),
                                   core_.header().constants.rest_period_ms);
        port.destination_->unpin();
    }
}

Result<Port> TableState::take(TakeFamily family) {
    const Footprint footprint = footprint_of_wildcard(core_.header(), family != TakeFamily::ipv6,
                                                      family != TakeFamily::ipv4);
    const OwnerWord owner = claim_word();
    if (const auto number = core_.take(footprint, {}, owner)) {
        return make_port(footprint, *number, owner);
    }
    const bool may_ask = may_recheck(footprint);
    if (reconcile_if_due(footprint) || may_ask) {
        const Ask thorough = {.range = {}, .search = RestSearch::thorough};
        if (const auto number = core_.take(footprint, thorough, owner)) {
            return make_port(footprint, *number, owner);
        }
    }
    return std::unexpected(exhausted("take", to_string(protocol_)));
}

Result<Port> TableState::claim(std::uint16_t number, std::uint64_t token) {
    const OwnerWord owner = claim_word();
    const Footprint footprint = BERTH_TRY(claim_leased(core_, number, token, owner));
    return make_port(footprint, number, owner);
}

Result<Lease> TableState::lease(const LeaseOptions& options) {
    auto granted = grant_lease(core_, options);
    const Footprint footprint = footprint_of_wildcard(core_.header(), true, true);
    if (!granted && granted.error().code() == Errc::ports_exhausted &&
        reconcile_if_due(footprint)) {
        granted = grant_lease(core_, options);
    }
    if (!granted && granted.error().code() == Errc::ports_exhausted) {
        return std::unexpected(exhausted("lease", to_string(protocol_)));
    }
    return granted;
}

std::uint32_t TableState::sweep() {
    const std::uint32_t freed = sweep_dead_holders(core_) + sweep_leases_and_orphans();
    core_.header().counters.reclaimed.fetch_add(freed, std::memory_order_relaxed);
    return freed;
}

std::uint32_t TableState::sweep_leases_and_orphans() {
    return expire_leases(core_) + sweep_orphans(core_, coarse_now_ms());
}

Result<ReconcileReport> TableState::reconcile() {
    auto result = reconcile_with_kernel(core_, protocol_, lost_sockets_, coarse_now_ms());
    if (!result) {
        sweep();  // what needs no list
        return result;
    }
    ReconcileReport& report = *result;
    report.ports_reclaimed += sweep_leases_and_orphans();
    core_.header().counters.reclaimed.fetch_add(report.ports_reclaimed, std::memory_order_relaxed);
    return result;
}

TableStatistics TableState::statistics() const {
    const TableHeader& header = core_.header();
    const PortSpace& wildcard = core_.space(kWildcardSpace);
    TableStatistics statistics;
    statistics.range = core_.range();
    for (const auto& word : header.allowed) {
        statistics.allowed_count +=
            static_cast<std::uint32_t>(std::popcount(word.load(std::memory_order_relaxed)));
    }
    statistics.free_count = wildcard.free.free_count();
    statistics.resting_count = wildcard.resting.count();
    statistics.leased_count = count_leased(core_);
    statistics.refused_count = header.counters.refused.load();
    statistics.kernel_choice_count = header.counters.kernel_choices.load();
    statistics.early_rest_count = header.counters.early_rests.load();
    statistics.exhausted_count = header.counters.exhausted.load();
    statistics.reconcile_count = header.counters.reconciles.load();
    statistics.reclaimed_count = header.counters.reclaimed.load();
    return statistics;
}

Destinations& TableState::destinations() {
    const std::uint64_t token = fork_token();
    ProcessDestinations* current = destinations_.load(std::memory_order_acquire);
    while (current == nullptr || current->fork_token != token) {
        auto fresh = std::make_unique<ProcessDestinations>();
        fresh->fork_token = token;
        fresh->inherited.reset(current);
        if (destinations_.compare_exchange_strong(current, fresh.get(),
                                                  std::memory_order_acq_rel)) {
            current = fresh.release();
        } else {
            static_cast<void>(fresh->inherited.release());
        }
    }
    return current->destinations;
}

}  // namespace berth::internal
