// SPDX-License-Identifier: Apache-2.0
#include "src/base/system_calls.h"
#include "src/ports/rate_limit.h"
#include "src/ports/scout.h"
#include "src/ports/table_state.h"
#include "src/ports/taken_ports.h"

#include <berth/descriptor.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace berth::internal {
namespace {

// At most this part of the time goes into reconciling.
constexpr std::uint64_t kReconcileShare = 20;

}  // namespace

bool TableState::may_recheck(const Footprint& footprint) noexcept {
    return pass_once(core_.header().next_recheck_ms[footprint.takes[0]], recheck_interval_ms_);
}

bool TableState::reconcile_if_due(const Footprint& footprint) {
    if (!pass_once(core_.header().next_reconcile_ms, kReconcileIntervalMs)) {
        return false;
    }
    const std::uint64_t started = coarse_now_ms();
    const bool has_succeeded = reconcile().has_value();
    const std::uint64_t ended = coarse_now_ms();
    core_.header().next_reconcile_ms.store(
        ended + std::max(kReconcileIntervalMs, (ended - started) * kReconcileShare));
    note_exhaustion(footprint);
    return has_succeeded;
}

// Who holds most of the ports, for the message; looked at rarely because it reads every owner.
void TableState::note_exhaustion(const Footprint& footprint) {
    std::unordered_map<OwnerWord, std::uint32_t> counts;
    std::uint32_t taken = 0;
    for_each_taken_port(core_, footprint.takes[0], [&](std::uint16_t, OwnerWord owner) {
        ++taken;
        if (kind_of(owner) == OwnerKind::process) ++counts[without_claim(owner)];
    });
    std::uint64_t top = 0;
    for (const auto& [owner, count] : counts) {
        const auto pid = static_cast<std::uint32_t>(process_of(owner).pid);
        top = std::max(top, static_cast<std::uint64_t>(count) << 32 | pid);
    }
    core_.header().top_holder.store(top, std::memory_order_relaxed);
    core_.header().taken_count.store(taken, std::memory_order_relaxed);
}

Error TableState::exhausted(const char* operation, std::string_view subject) noexcept {
    TableHeader& header = core_.header();
    header.counters.exhausted.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t top = header.top_holder.load(std::memory_order_relaxed);
    const PortRange range = core_.range();
    return Error(Errc::ports_exhausted, operation, subject)
        .with_exhaustion({header.taken_count.load(std::memory_order_relaxed), range.first,
                          range.last, static_cast<std::uint32_t>(top),
                          static_cast<std::uint32_t>(top >> 32)});
}

// Which port the kernel would choose now, among those that berth has promised to nobody. The
// socket itself is not used for the question, because its answer could not be undone.
MaybePort TableState::ask_kernel_for_port(const Attempt& attempt) {
    constexpr unsigned kQuestionLimit = 4;
    const PortRange range = attempt.ask.range.is_valid() ? attempt.ask.range : core_.range();
    const bool is_namespace_range =
        !attempt.ask.range.is_valid() && core_.header().constants.explicit_first == 0;
    std::array<Descriptor, kQuestionLimit> scouts;  // held, so that each answer is another port
    for (Descriptor& scout : scouts) {
        scout = open_scout(attempt.socket, protocol_);
        // Before 6.3 the kernel would choose from the namespace's range, not from the table's.
        const bool is_right = set_port_range(scout.get(), range) == 0 || is_namespace_range;
        const Address any_port = attempt.local.with_port(0);
        if (!scout.is_open() || !is_right ||
            calls().bind(scout.get(), any_port.data(), any_port.size()) != 0) {
            return {};
        }
        const auto chosen = read_local_address(scout.get());
        if (!chosen || !range.contains(chosen->port())) {
            return {};  // The kernel ignores a range outside the namespace's.
        }
        if (chosen->port() != attempt.ask.excluded &&
            !test(core_.header().excluded, chosen->port()) &&
            !core_.is_promised(all_spaces(attempt.footprint), chosen->port())) {
            return chosen->port();
        }
    }
    return {};
}

Result<std::optional<Port>> TableState::bind_by_kernel(Attempt& attempt, Sharing sharing) {
    constexpr unsigned kAttemptLimit = 4;
    for (unsigned i = 0; i < kAttemptLimit; ++i) {
        const auto port = ask_kernel_for_port(attempt);
        if (!port) break;
        if (!core_.claim_exactly(attempt.footprint, *port, attempt.owner)) {
            // Addresses that share a space: bound on another of them, which the kernel allows.
            const Address local = attempt.local.with_port(*port);
            if (attempt.footprint.takes[0] / 2 == kOthersSpace / 2 && sharing == Sharing::none &&
                calls().bind(attempt.socket.fd, local.data(), local.size()) == 0) {
                core_.header().counters.kernel_choices.fetch_add(1, std::memory_order_relaxed);
                return make_guest(*port);
            }
            continue;
        }
        if (core_.is_promised(attempt.footprint.checks, *port)) {
            core_.release(attempt.footprint, *port, attempt.owner);
            continue;
        }
        if (BERTH_TRY(bind_port(attempt, *port, sharing)) == Outcome::done) {
            core_.header().counters.kernel_choices.fetch_add(1, std::memory_order_relaxed);
            return make_port(attempt.footprint, *port, attempt.owner);
        }
    }
    return std::optional<Port>();
}

}  // namespace berth::internal
