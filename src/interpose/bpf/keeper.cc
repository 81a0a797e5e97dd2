// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/bpf/keeper.h"

#include "src/interpose/bpf/cgroup.h"
#include "src/interpose/bpf/namespaces.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace berth::internal::bpf {
namespace {

constexpr unsigned kLooksUntilGone = 2;
constexpr std::uint64_t kPairSweepIntervalMs = 10'000;

berth_table_key key_of(std::uint64_t cookie, Protocol protocol) noexcept {
    return {.netns_cookie = cookie, .protocol = number_of(protocol), .unused = 0};
}

void add(SyncReport& sum, const SyncReport& part) noexcept {
    sum.found += part.found;
    sum.freed += part.freed;
    sum.recovered += part.recovered;
    sum.settled += part.settled;
}

}  // namespace

Keeper::Keeper(Maps maps, const berth_settings& settings)
    : maps_(std::move(maps)), settings_(settings) {}

Result<LookReport> Keeper::look() {
    const std::uint64_t began = monotonic_ms();
    LookReport report;
    for (auto& [key, known] : known_) ++known.missed_count;
    // Our own first: a program about to be started in an empty cgroup will be in it.
    BERTH_TRY(look_here(report));
    const std::vector<Descriptor> namespaces = BERTH_TRY(namespaces_in(settings_.cgroup));
    for (const Descriptor& netns : namespaces) {
        if (!inside_namespace(netns, [&] { return look_here(report); })) {
            ++report.skipped_count;
        }
    }
    forget_gone();
    if (began >= next_pair_sweep_ms_) {
        maps_.sweep_pairs();
        next_pair_sweep_ms_ = began + kPairSweepIntervalMs;
    }
    look_ms_ = monotonic_ms() - began;
    return report;
}

Result<void> Keeper::look_here(LookReport& report) {
    const std::uint64_t cookie = BERTH_TRY(own_netns_cookie());
    const auto known = known_.find({cookie, number_of(Protocol::tcp)});
    if (known != known_.end() && known->second.missed_count == 0) {
        return {};  // seen in this look already
    }
    const AllowedPorts allowed = BERTH_TRY(read_allowed_ports(settings_));
    const bool is_new = BERTH_TRY(keep_table(cookie, Protocol::udp, allowed, report));
    BERTH_TRY(keep_table(cookie, Protocol::tcp, allowed, report));
    ++report.namespace_count;
    report.new_count += is_new ? 1 : 0;
    return {};
}

Result<bool> Keeper::keep_table(std::uint64_t cookie, Protocol protocol,
                                const AllowedPorts& allowed, LookReport& report) {
    const bool is_new = !known_.contains({cookie, number_of(protocol)});
    Known& known = *BERTH_TRY(find_or_make(cookie, protocol, allowed));
    known.missed_count = 0;
    known.table.set_allowed(allowed.range, allowed.ports);
    known.table.set_pair_rests(allowed.time_wait_rests);
    add(report.sync, BERTH_TRY(known.sync.run(known.table)));
    known.table.extend(kValidMs);
    return is_new;
}

Result<Keeper::Known*> Keeper::find_or_make(std::uint64_t cookie, Protocol protocol,
                                            const AllowedPorts& allowed) {
    const Key key{cookie, number_of(protocol)};
    if (const auto at = known_.find(key); at != known_.end()) {
        return &at->second;
    }
    std::optional<TableMap> table = BERTH_TRY(maps_.table(key_of(cookie, protocol)));
    if (!table) {
        table = BERTH_TRY(TableMap::create(
            allowed.range, allowed.ports,
            {.brief_ms = settings_.brief_rest_ms, .lengthy_ms = settings_.lengthy_rest_ms}));
        // The programs take note in it from here on, so what the list misses they have seen.
        BERTH_TRY(maps_.add(key_of(cookie, protocol), *table));
    }
    return &known_.emplace(key, Known(protocol, std::move(*table))).first->second;
}

void Keeper::forget_gone() {
    for (auto at = known_.begin(); at != known_.end();) {
        if (at->second.missed_count < kLooksUntilGone) {
            ++at;
            continue;
        }
        maps_.remove({.netns_cookie = at->first.first, .protocol = at->first.second, .unused = 0});
        at = known_.erase(at);
    }
}

bool Keeper::is_asked() const {
    bool is_asked = false;
    for (const auto& [key, known] : known_) {
        is_asked = known.table.takes_wish_for_sync() || is_asked;
    }
    return is_asked;
}

}  // namespace berth::internal::bpf
