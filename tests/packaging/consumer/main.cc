// SPDX-License-Identifier: Apache-2.0
#include <berth/ports.h>

#include <cstdio>

namespace {

berth::Result<bool> take_from_a_range_of_one() {
    berth::TableOptions options;
    options.range = berth::PortRange{50000, 50000};
    options.honour_reserved = false;
    options.reconcile_at_start = false;
    berth::PortTable ports = BERTH_TRY(berth::PortTable::create(berth::Protocol::udp, options));
    const berth::Port port = BERTH_TRY(ports.take());
    return port.number() == 50000;
}

}  // namespace

int main() {
    const berth::Result<bool> took = take_from_a_range_of_one();
    if (!took) {
        std::fprintf(stderr, "%s\n", took.error().message().c_str());
    }
    return took.value_or(false) ? 0 : 1;
}
