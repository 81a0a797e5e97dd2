// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/port_registry.h"

#include <algorithm>

namespace berth::internal::simulated {
namespace {

bool covers(const PortClaim& wildcard, Family family) noexcept {
    return family == Family::ipv4 ? wildcard.covers_ipv4 : wildcard.covers_ipv6;
}

}  // namespace

bool PortClaim::overlaps(const PortClaim& other) const {
    if (host.is_wildcard() && other.host.is_wildcard()) {
        return (covers_ipv4 && other.covers_ipv4) || (covers_ipv6 && other.covers_ipv6);
    }
    if (host.is_wildcard()) {
        return covers(*this, other.host.family());
    }
    if (other.host.is_wildcard()) {
        return covers(other, host.family());
    }
    return host == other.host;
}

bool PortRegistry::is_conflict(const PortClaim& claim, const PortClaim& other,
                               bool is_chosen_here) const {
    const bool share_address = claim.may_reuse_address && other.may_reuse_address;
    const bool share_port = claim.may_reuse_port && other.may_reuse_port;
    if (protocol_ == Protocol::udp) {
        return !share_address && !share_port;
    }
    if (is_chosen_here) {
        return true;
    }
    return !share_port && (!share_address || other.is_listening);
}

bool PortRegistry::has_conflict(std::uint16_t port, const PortClaim& claim,
                                bool is_chosen_here) const {
    return std::ranges::any_of(claims(port), [&](const PortClaim* other) {
        return other != &claim && claim.overlaps(*other) &&
               is_conflict(claim, *other, is_chosen_here);
    });
}

bool PortRegistry::is_bound(std::uint16_t port) const {
    return std::ranges::any_of(claims(port),
                               [](const PortClaim* claim) { return !claim->is_by_connect; });
}

void PortRegistry::remove(std::uint16_t port, PortClaim& claim) {
    const auto found = claims_.find(port);
    if (found == claims_.end()) {
        return;
    }
    std::erase(found->second, &claim);
    if (found->second.empty()) {
        claims_.erase(found);
    }
}

const std::vector<PortClaim*>& PortRegistry::claims(std::uint16_t port) const {
    static const std::vector<PortClaim*> none;
    const auto found = claims_.find(port);
    return found == claims_.end() ? none : found->second;
}

}  // namespace berth::internal::simulated
