// SPDX-License-Identifier: Apache-2.0
#include "src/ports/sweep.h"

#include "src/ports/taken_ports.h"

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

std::uint32_t sweep_dead_holders(TableCore& core, const IsHeld& is_held) {
    Liveness is_holder_alive;
    const RestRule rule = core.rest_rule();
    std::uint32_t taken = 0;
    for_each_used_space(core, [&](unsigned index) {
        PortSpace& space = core.space(index);
        for_each_taken_port(core, index, [&](std::uint16_t port, OwnerWord owner) {
            if (kind_of(owner) != OwnerKind::process || is_holder_alive(owner)) {
                return;
            }
            const bool is_taken =
                is_held && is_held(index, port)
                    ? space.replace_owner(port, owner, kernel_word(core.next_stamp()))
                    : space.release(port, owner, rule);
            taken += is_taken ? 1U : 0U;
        });
    });
    return taken;
}

std::uint32_t sweep_orphans(TableCore& core, std::uint64_t now_ms) {
    std::uint32_t freed = 0;
    for_each_used_space(core, [&](unsigned index) {
        PortSpace& space = core.space(index);
        for_each_taken_port(core, index, [&](std::uint16_t port, OwnerWord owner) {
            if (owner == kNobody) {
                space.replace_owner(port, kNobody, orphan_word(now_ms));
            } else if (kind_of(owner) == OwnerKind::orphan &&
                       now_ms >= orphan_since_ms(owner) + kOrphanGraceMs) {
                const OwnerWord sweeper = claim_word();
                if (space.replace_owner(port, owner, sweeper)) {
                    space.unclaim(port, sweeper, core.allowed());
                    ++freed;
                }
            }
        });
    });
    return freed;
}

}  // namespace berth::internal
