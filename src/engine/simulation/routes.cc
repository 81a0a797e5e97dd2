// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/routes.h"

#include "src/engine/simulation/address_io.h"

#include <algorithm>

namespace berth::internal::simulated {

Routes::Routes(const SimulationOptions& options) : default_route_(options.default_route) {
    for (const Address& address : options.local_addresses) own_.push_back(host_of(address));
}

bool Routes::is_own(const Address& host) const {
    const Address wanted = host_of(host);
    return wanted.is_wildcard() || wanted.is_loopback() || std::ranges::count(own_, wanted) > 0;
}

Route Routes::to(const Address& host) const {
    const Address wanted = host_of(host);
    const auto special = std::ranges::find(special_, wanted, &std::pair<Address, Route>::first);
    if (special != special_.end()) {
        return special->second;
    }
    return is_own(wanted) ? Route::local : default_route_;
}

void Routes::set(const Address& host, Route route) {
    const Address wanted = host_of(host);
    std::erase_if(special_, [&](const auto& entry) { return entry.first == wanted; });
    special_.emplace_back(wanted, route);
}

Address Routes::source_for(const Address& remote) const {
    const Address host = host_of(remote);
    const Address loopback = Address::loopback(host.family());
    if (host.is_loopback()) {
        return loopback;
    }
    if (std::ranges::count(own_, host) > 0) {
        return host;
    }
    const auto first = std::ranges::find(own_, host.family(), &Address::family);
    return first == own_.end() ? loopback : *first;
}

Address destination_of(const Address& asked) {
    const Address address = asked.unmapped();
    return address.is_wildcard() ? Address::loopback(address.family(), address.port()) : address;
}

}  // namespace berth::internal::simulated
