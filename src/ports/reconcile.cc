// SPDX-License-Identifier: Apache-2.0
#include "src/ports/reconcile.h"

#include "src/ports/kernel_view.h"
#include "src/ports/namespace_settings.h"
#include "src/ports/sweep.h"
#include "src/ports/taken_ports.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <memory>
#include <vector>

namespace berth::internal {
namespace {

using PortMap = std::bitset<kPortCount>;

// What the kernel shows, sorted into the table's spaces.
class KernelPicture {
public:
    KernelPicture(TableCore& core, Protocol protocol) : core_(core), protocol_(protocol) {}

    void add(const KernelSocket& socket) {
        const std::uint16_t port = socket.local.port();
        is_seen_.set(port);
        const Address local = socket.local.unmapped();
        const auto family = static_cast<unsigned>(local.family());
        if (protocol_ == Protocol::tcp && socket.remote.port() != 0) {
            mark(kConnectedSpace + family, port);
        } else if (!local.is_wildcard()) {
            mark(space_of(local), port);
        } else {
            mark(kWildcardSpace + family, port);
            if (socket.is_dual_stack) {
                mark(kWildcardSpace + static_cast<unsigned>(Family::ipv4), port);
            }
        }
    }

    bool is_seen(std::uint16_t port) const { return is_seen_.test(port); }
    bool is_held(unsigned space, std::uint16_t port) const {
        return maps_[space] != nullptr && maps_[space]->test(port);
    }
    const PortMap* map(unsigned space) const { return maps_[space].get(); }

private:
    // An address that only strangers use gets no space of its own: there are few.
    unsigned space_of(const Address& local) const {
        return find_space_of_address(core_.header(), local)
            .value_or(kOthersSpace + static_cast<unsigned>(local.family()));
    }

    void mark(unsigned space, std::uint16_t port) {
        if (maps_[space] == nullptr) {
            maps_[space] = std::make_unique<PortMap>();
        }
        maps_[space]->set(port);
    }

    TableCore& core_;
    Protocol protocol_;
    PortMap is_seen_;
    std::array<std::unique_ptr<PortMap>, kSpaceCount> maps_;
};

bool is_berths_own(OwnerWord owner) noexcept {
    return !is_nobodys(owner) && kind_of(owner) != OwnerKind::kernel;
}

// What the table held before the kernel's list was asked for.
class TableBefore {
public:
    explicit TableBefore(const TableCore& core) {
        for_each_used_space(core, [&](unsigned index) {
            spaces_[index] = std::make_unique<Space>();
            spaces_[index]->pour_count = core.space(index).resting.pour_count();
            for (unsigned i = 0; i < kWordCount; ++i) {
                spaces_[index]->resting[i] = core.space(index).resting.word(i);
            }
            for_each_taken_port(core, index, [&](std::uint16_t port, OwnerWord owner) {
                spaces_[index]->owners[port] = owner;
            });
        });
    }

    bool is_unchanged(unsigned space, std::uint16_t port, OwnerWord owner) const {
        return spaces_[space] != nullptr && spaces_[space]->owners[port] == owner;
    }
    // Resting ports have been freed since: each of them may have been taken, listed and closed
    // again.
    bool has_poured_since(const TableCore& core, unsigned space) const {
        const std::uint32_t before = spaces_[space] != nullptr ? spaces_[space]->pour_count : 0;
        return core.space(space).resting.pour_count() != before;
    }
    // berth had given it out, in any space.
    bool was_held(std::uint16_t port) const {
        return std::ranges::any_of(spaces_, [port](const auto& space) {
            return space != nullptr && is_berths_own(space->owners[port]);
        });
    }
    bool was_resting(unsigned space, std::uint16_t port) const {
        return spaces_[space] != nullptr &&
               (spaces_[space]->resting[port / 64] & bit_of(port)) != 0;
    }

private:
    struct Space {
        std::array<OwnerWord, kPortCount> owners{};
        std::array<std::uint64_t, kWordCount> resting{};
        std::uint32_t pour_count = 0;
    };
    std::array<std::unique_ptr<Space>, kSpaceCount> spaces_;
};

// A port that berth gave out in any space: then the socket in the kernel's list is most likely that
// one, shown with the local address that connecting gave it.
bool has_own_holder(const TableCore& core, std::uint16_t port) {
    bool found = false;
    for_each_used_space(core, [&](unsigned index) {
        found = found || is_berths_own(core.space(index).owner(port));
    });
    return found;
}

// Marks what the kernel shows and the table does not know. A port that has rested since before the
// list was asked for is not the one that its releaser closed: somebody else has that socket. One
// that berth had given out then, and that is free now, has been closed meanwhile, and its rest was
// short. Connections are left to rest, because TIME_WAIT is what they rest for.
std::uint32_t learn(TableCore& core, unsigned index, const PortMap& held,
                    const TableBefore& before) {
    PortSpace& space = core.space(index);
    const PortRange range = core.range();
    const bool is_of_connections = index / 2 == kConnectedSpace / 2;
    std::uint32_t learned = 0;
    core.note_use(index);
    if (before.has_poured_since(core, index)) {
        return learned;  // a wrong "free" costs one refused bind, a wrong "taken" a port
    }
    for (unsigned number = range.first; number <= range.last; ++number) {
        const auto port = static_cast<std::uint16_t>(number);
        if (!held.test(port) || has_own_holder(core, port)) {
            continue;
        }
        const bool is_candidate = (space.free.is_free(port) && !before.was_held(port)) ||
                                  (!is_of_connections && before.was_resting(index, port));
        const OwnerWord kernel = kernel_word(core.next_stamp());
        if (is_candidate && space.claim_unowned(port, kernel)) {
            ++learned;
        }
    }
    return learned;
}

// Frees kernel-held ports that the list does not show, and collects what looks lost.
struct Forgetter {
    TableCore& core;
    const KernelPicture& picture;
    const TableBefore& before;
    bool saw_bound_only;
    ReconcileReport& report;
    std::vector<LostSockets::Suspect>& suspects;

    void operator()(unsigned index, std::uint16_t port, OwnerWord owner) const {
        if (!before.is_unchanged(index, port, owner) || picture.is_held(index, port)) {
            return;
        }
        PortSpace& space = core.space(index);
        if (kind_of(owner) == OwnerKind::kernel) {
            if (space.replace_owner(port, owner, kNobody)) {
                space.make_free(port, core.allowed());
                ++report.ports_freed;
            }
        } else if (is_missing(port, owner)) {
            suspects.push_back({index << 16 | port, owner, 0});
        }
    }

    // A bound socket that the kernel does not show, on any address. A TCP socket that is only bound
    // can be seen from 6.8 on; before, nothing follows from its absence.
    bool is_missing(std::uint16_t port, OwnerWord owner) const {
        if (picture.is_seen(port)) {
            return false;
        }
        return kind_of(owner) == OwnerKind::connected ||
               (kind_of(owner) == OwnerKind::process && (owner & kBoundFlag) != 0 &&
                saw_bound_only);
    }
};

void set_ports(PortBits& bits, PortRange range, bool is_allowed) {
    for (unsigned port = range.first; port <= range.last; ++port) {
        auto& word = bits[port / 64];
        const std::uint64_t bit = bit_of(static_cast<std::uint16_t>(port));
        const std::uint64_t before = word.load(std::memory_order_relaxed);
        word.store(is_allowed ? before | bit : before & ~bit, std::memory_order_relaxed);
    }
}

}  // namespace

Result<void> refresh_allowed(TableCore& core) {
    const TableConstants& constants = core.header().constants;
    const PortRange explicit_range = {constants.explicit_first, constants.explicit_last};
    const bool honours_reserved = constants.honours_reserved != 0;
    if (explicit_range.is_valid() && !honours_reserved && core.range() == explicit_range) {
        return {};
    }
    NamespaceSettings settings;
    if (!explicit_range.is_valid() || honours_reserved) {
        settings = BERTH_TRY(read_namespace_settings());
    }
    const PortRange range = explicit_range.is_valid() ? explicit_range : settings.range;
    const auto allowed = std::make_unique<PortBits>();
    set_ports(*allowed, range, true);
    if (honours_reserved) {
        for (const PortRange& reserved : settings.reserved) set_ports(*allowed, reserved, false);
    }
    for (unsigned i = 0; i < kWordCount; ++i) {
        (*allowed)[i].fetch_and(~core.header().excluded[i].load(std::memory_order_relaxed),
                                std::memory_order_relaxed);
    }
    core.set_allowed(range, *allowed);
    return {};
}

std::vector<LostSockets::Suspect> LostSockets::confirm(std::vector<Suspect> suspects,
                                                       std::uint64_t now_ms) {
    std::vector<Suspect> confirmed;
    if (is_busy_.test_and_set(std::memory_order_acquire)) {
        return confirmed;
    }
    for (Suspect& suspect : suspects) {
        const auto known = std::ranges::lower_bound(known_, suspect.place, {}, &Suspect::place);
        const bool is_known =
            known != known_.end() && known->place == suspect.place && known->owner == suspect.owner;
        suspect.since_ms = is_known ? known->since_ms : now_ms;
        if (now_ms >= suspect.since_ms + kGraceMs) confirmed.push_back(suspect);
    }
    known_ = std::move(suspects);
    is_busy_.clear(std::memory_order_release);
    return confirmed;
}

Result<ReconcileReport> reconcile_with_kernel(TableCore& core, Protocol protocol,
                                              LostSockets& lost_sockets, std::uint64_t now_ms) {
    BERTH_TRY(refresh_allowed(core));
    const TableBefore before(core);
    const KernelSockets listed = BERTH_TRY(read_kernel_sockets(protocol));
    KernelPicture picture(core, protocol);
    for (const KernelSocket& socket : listed.sockets) picture.add(socket);

    ReconcileReport report;
    report.sockets_seen = static_cast<std::uint32_t>(listed.sockets.size());
    report.saw_bound_only = listed.saw_bound_only;
    report.was_interrupted = listed.was_interrupted;
    report.ports_reclaimed = sweep_dead_holders(
        core, [&](unsigned index, std::uint16_t port) { return picture.is_held(index, port); });
    for (unsigned index = 0; index < kSpaceCount; ++index) {
        if (const PortMap* held = picture.map(index)) {
            report.ports_learned += learn(core, index, *held, before);
        }
    }
    if (!listed.was_interrupted) {
        std::vector<LostSockets::Suspect> suspects;
        const Forgetter forget{core, picture, before, listed.saw_bound_only, report, suspects};
        for_each_used_space(core, [&](unsigned index) {
            for_each_taken_port(core, index, [&](std::uint16_t port, OwnerWord owner) {
                forget(index, port, owner);
            });
        });
        for (const auto& lost : lost_sockets.confirm(std::move(suspects), now_ms)) {
            const auto port = static_cast<std::uint16_t>(lost.place);
            PortSpace& space = core.space(lost.place >> 16);
            report.ports_reclaimed += space.release(port, lost.owner, core.rest_rule()) ? 1U : 0U;
        }
    }
    for_each_used_space(core, [&](unsigned index) { core.space(index).free.recount(); });
    core.header().counters.reconciles.fetch_add(1, std::memory_order_relaxed);
    return report;
}

}  // namespace berth::internal
