// SPDX-License-Identifier: Apache-2.0
#include "src/ports/sweep.h"

#include "src/ports/taken_ports.h"

#include <algorithm>
#include <unordered_map>

namespace berth::internal {
namespace {

// Asks the kernel once for each process.
class Liveness {
public:
    bool operator()(OwnerWord word) {
        const auto [entry, is_new] = known_.try_emplace(without_claim(word), true);
        if (is_new) {
            entry->second = is_alive(process_of(word));
        }
        return entry->second;
    }

private:
    std::unordered_map<OwnerWord, bool> known_;
};

}  // namespace

std::uint32_t sweep_dead_holders(TableCore& core) {
    Liveness is_holder_alive;
    const RestRule rule = core.rest_rule();
    std::uint32_t freed = 0;
    for_each_used_space(core, [&](unsigned index) {
        for_each_taken_port(core, index, [&](std::uint16_t port, OwnerWord owner) {
            if (kind_of(owner) == OwnerKind::process && !is_holder_alive(owner) &&
                core.space(index).release(port, owner, rule)) {
                ++freed;
            }
        });
    });
    return freed;
}

std::uint32_t OrphanWatch::sweep(TableCore& core, std::uint64_t now_ms) {
    if (is_busy_.test_and_set(std::memory_order_acquire)) {
        return 0;
    }
    std::vector<Sighting> current;
    std::uint32_t freed = 0;
    const OwnerWord sweeper = claim_word();
    for_each_used_space(core, [&](unsigned index) {
        PortSpace& space = core.space(index);
        for_each_taken_port(core, index, [&](std::uint16_t port, OwnerWord owner) {
            if (owner != kNobody) {
                return;
            }
            const std::uint32_t place = index << 16 | port;
            const auto known = std::ranges::lower_bound(sightings_, place, {}, &Sighting::place);
            const bool is_known = known != sightings_.end() && known->place == place;
            const std::uint64_t since = is_known ? known->seen_ms : now_ms;
            if (now_ms - since < kGraceMs) {
                current.push_back({place, since});
            } else if (space.replace_owner(port, kNobody, sweeper)) {
                space.unclaim(port, sweeper, core.allowed());
                ++freed;
            }
        });
    });
    sightings_ = std::move(current);
    is_busy_.clear(std::memory_order_release);
    return freed;
}

}  // namespace berth::internal
