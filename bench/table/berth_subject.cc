// SPDX-License-Identifier: Apache-2.0
#include "bench/table/berth_subject.h"

#include <chrono>
#include <utility>

namespace berth::bench {

Result<std::unique_ptr<Subject>> BerthSubject::create(Kind kind, PortRange range) {
    // No socket is involved: the table alone is measured, so the kernel's own are not asked for.
    TableOptions options;
    options.range = range;
    options.honour_reserved = false;
    options.reconcile_at_start = false;
    if (kind != Kind::default_rest) {
        options.rest_period = std::chrono::milliseconds(0);
    }
    PortTable table =
        BERTH_TRY(kind == Kind::shared_memory ? PortTable::create_shared(Protocol::udp, options)
                                              : PortTable::create(Protocol::udp, options));
    return std::make_unique<BerthSubject>(std::move(table), range);
}

PairCount BerthSubject::take_and_release(unsigned count) {
    PairCount done;
    for (unsigned pair = 0; pair < count; ++pair) {
        if (auto port = table_.take(TakeFamily::ipv4)) {
            port->release();
            ++done.succeeded;
        } else {
            ++done.failed;
        }
    }
    return done;
}

std::optional<std::uint32_t> BerthSubject::take() {
    auto port = table_.take(TakeFamily::ipv4);
    if (!port) {
        return std::nullopt;
    }
    const auto index = static_cast<std::uint32_t>(port->number() - range_.first);
    held_[index] = std::move(*port);
    return index;
}

}  // namespace berth::bench
