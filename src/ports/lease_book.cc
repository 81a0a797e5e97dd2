// SPDX-License-Identifier: Apache-2.0
#include "src/ports/lease_book.h"

#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/ports/lease_shape.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace berth::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr const char* kLease = "lease";
constexpr milliseconds kLongest = std::chrono::hours(24 * 365);

Result<std::uint64_t> deadline_in(milliseconds expires_in) {
    if (expires_in < milliseconds(1) || expires_in > kLongest) {
        return std::unexpected(Error(Errc::invalid_argument, kLease, "expires_in", 0,
                                     "it is outside what is accepted", "give 1 ms to 365 days"));
    }
    return boot_now_ns() + static_cast<std::uint64_t>(nanoseconds(expires_in).count());
}

Result<void> check(const LeaseOptions& options) {
    if (options.count < 1 || options.count > 64) {
        return std::unexpected(Error(Errc::invalid_argument, kLease, "count", 0,
                                     "it is outside what is accepted", "give 1 to 64 ports"));
    }
    if (options.shape == LeaseShape::even_odd_pairs && options.count % 2 != 0) {
        return std::unexpected(Error(Errc::invalid_argument, kLease, "count", 0,
                                     "pairs of ports need an even number", "give 2, 4, …, 64"));
    }
    return {};
}

Footprint both_families(const TableCore& core) noexcept {
    return footprint_of_wildcard(core.header(), true, true);
}

// An entry is free, or its maker died before it was finished.
bool reserve(LeaseEntry& entry) noexcept {
    OwnerWord state = entry.state.load(std::memory_order_acquire);
    const bool is_abandoned = kind_of(state) == OwnerKind::process && !is_alive(process_of(state));
    return (state == kNobody || is_abandoned) &&
           entry.state.compare_exchange_strong(state, own_word(), std::memory_order_acq_rel);
}

std::optional<std::uint16_t> reserve_entry(TableHeader& header) noexcept {
    const std::uint32_t start = thread_random().below(kLeaseCount);
    for (unsigned i = 0; i < kLeaseCount; ++i) {
        const auto index = static_cast<std::uint16_t>((start + i) % kLeaseCount);
        if (header.leases[index].state.load(std::memory_order_relaxed) == kNobody &&
            reserve(header.leases[index])) {
            return index;
        }
    }
    for (unsigned index = 0; index < kLeaseCount; ++index) {
        if (reserve(header.leases[index])) {
            return static_cast<std::uint16_t>(index);
        }
    }
    return std::nullopt;
}

// Ends the lease if it is still the one of `word`. True for exactly one caller.
bool end(LeaseEntry& entry, OwnerWord word) noexcept {
    return entry.state.compare_exchange_strong(word, kNobody, std::memory_order_acq_rel);
}

std::uint32_t release_ports_of(TableCore& core, OwnerWord lease) noexcept {
    const Footprint footprint = both_families(core);
    const PortRange range = core.known_range();
    std::uint32_t count = 0;
    for (unsigned port = range.first; port <= range.last; ++port) {
        const auto number = static_cast<std::uint16_t>(port);
        if (core.space(footprint.takes[0]).owner(number) == lease ||
            core.space(footprint.takes[1]).owner(number) == lease) {
            core.release(footprint, number, lease);
            ++count;
        }
    }
    return count;
}

struct Found {
    LeaseEntry* entry;
    OwnerWord word;
};

std::optional<Found> find(TableHeader& header, std::uint64_t token) noexcept {
    for (LeaseEntry& entry : header.leases) {
        const OwnerWord word = entry.state.load(std::memory_order_acquire);
        if (kind_of(word) == OwnerKind::lease &&
            entry.token.load(std::memory_order_relaxed) == token) {
            return Found{&entry, word};
        }
    }
    return std::nullopt;
}

bool has_expired(const LeaseEntry& entry) noexcept {
    return entry.deadline_ns.load(std::memory_order_relaxed) <= boot_now_ns();
}

std::unexpected<Error> not_holder(const char* operation) {
    return std::unexpected(Error(Errc::not_holder, operation, "lease", 0,
                                 "no lease with this token has it",
                                 "it may have expired or been given back: lease again"));
}

std::unexpected<Error> expired(const char* operation) {
    return std::unexpected(Error(Errc::lease_expired, operation, "lease", 0,
                                 "its deadline has passed", "renew a lease before its deadline"));
}

}  // namespace

Result<Lease> grant_lease(TableCore& core, const LeaseOptions& options) {
    BERTH_TRY(check(options));
    const std::uint64_t deadline = BERTH_TRY(deadline_in(options.expires_in));
    auto index = reserve_entry(core.header());
    if (!index && expire_leases(core) > 0) {
        index = reserve_entry(core.header());
    }
    if (!index) {
        return std::unexpected(Error(Errc::too_many_leases, kLease, "ports", 0,
                                     "the table holds 4096 leases, as many as it can",
                                     "give leases back, or lease several ports at once"));
    }
    LeaseEntry& entry = core.header().leases[*index];
    const std::uint64_t generation = entry.generation.fetch_add(1, std::memory_order_relaxed) + 1;
    const OwnerWord word = lease_word(*index, generation);
    std::uint64_t token = 0;
    while (token == 0) token = thread_random().next_u64();
    entry.token.store(token, std::memory_order_relaxed);
    entry.deadline_ns.store(deadline, std::memory_order_relaxed);
    auto ports = take_shape(core, both_families(core), options, word);
    if (ports.empty()) {
        entry.state.store(kNobody, std::memory_order_release);
        return std::unexpected(Error(Errc::ports_exhausted, kLease, "ports"));
    }
    entry.state.store(word, std::memory_order_release);
    std::ranges::sort(ports);
    return Lease{std::move(ports), token, nanoseconds(deadline)};
}

Result<Footprint> claim_leased(TableCore& core, std::uint16_t port, std::uint64_t token,
                               OwnerWord owner) {
    const auto found = find(core.header(), token);
    if (!found) {
        return not_holder("claim port");
    }
    if (has_expired(*found->entry)) {
        return expired("claim port");
    }
    const Footprint footprint = both_families(core);
    if (!core.space(footprint.takes[0]).replace_owner(port, found->word, owner)) {
        return not_holder("claim port");
    }
    if (!core.space(footprint.takes[1]).replace_owner(port, found->word, owner)) {
        // The lease ended just now, and its ports are being taken back.
        core.space(footprint.takes[0]).release(port, owner, core.rest_rule());
        return not_holder("claim port");
    }
    return footprint;
}

Result<nanoseconds> renew_lease(TableCore& core, std::uint64_t token, milliseconds expires_in) {
    const std::uint64_t deadline = BERTH_TRY(deadline_in(expires_in));
    const auto found = find(core.header(), token);
    if (!found) {
        return not_holder("renew");
    }
    std::uint64_t current = found->entry->deadline_ns.load(std::memory_order_relaxed);
    // Moved only while it has not passed: a lease that somebody is expiring stays expired.
    do {
        if (current <= boot_now_ns() || found->entry->state.load() != found->word) {
            return expired("renew");
        }
    } while (!found->entry->deadline_ns.compare_exchange_weak(current, deadline));
    if (found->entry->state.load() != found->word) {
        // The entry went to another lease in between: what was moved is that one's deadline.
        std::uint64_t moved = deadline;
        found->entry->deadline_ns.compare_exchange_strong(moved, current);
        return expired("renew");
    }
    return nanoseconds(deadline);
}

Result<void> give_back_lease(TableCore& core, std::uint64_t token) {
    const auto found = find(core.header(), token);
    if (!found || !end(*found->entry, found->word)) {
        return not_holder("give back");
    }
    release_ports_of(core, found->word);
    return {};
}

bool is_valid_lease(const TableHeader& header, OwnerWord word) noexcept {
    const std::uint16_t index = lease_index_of(word);
    if (index >= kLeaseCount) {
        return false;
    }
    const LeaseEntry& entry = header.leases[index];
    const OwnerWord state = entry.state.load(std::memory_order_acquire);
    if (kind_of(state) == OwnerKind::process) {
        // Being made right now, or its maker died.
        return is_alive(process_of(state));
    }
    return state == word && !has_expired(entry);
}

std::uint32_t expire_leases(TableCore& core) noexcept {
    TableHeader& header = core.header();
    for (LeaseEntry& entry : header.leases) {
        const OwnerWord word = entry.state.load(std::memory_order_acquire);
        std::uint64_t deadline = entry.deadline_ns.load(std::memory_order_relaxed);
        // Moved to the beginning of time first: renew() comes before that, or not at all.
        if (kind_of(word) == OwnerKind::lease && deadline <= boot_now_ns() &&
            entry.deadline_ns.compare_exchange_strong(deadline, 0)) {
            end(entry, word);
        }
    }
    const Footprint footprint = both_families(core);
    const PortRange range = core.known_range();
    std::uint32_t count = 0;
    for (unsigned port = range.first; port <= range.last; ++port) {
        const auto number = static_cast<std::uint16_t>(port);
        for (unsigned i = 0; i < footprint.take_count; ++i) {
            const OwnerWord word = core.space(footprint.takes[i]).owner(number);
            if (kind_of(word) == OwnerKind::lease && !is_valid_lease(header, word)) {
                core.release(footprint, number, word);
                ++count;
            }
        }
    }
    return count;
}

std::uint32_t count_leased(const TableCore& core) noexcept {
    const PortRange range = core.range();
    std::uint32_t count = 0;
    for (unsigned port = range.first; port <= range.last; ++port) {
        const OwnerWord word = core.space(kWildcardSpace).owner(static_cast<std::uint16_t>(port));
        count += kind_of(word) == OwnerKind::lease ? 1U : 0U;
    }
    return count;
}

}  // namespace berth::internal
