// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/fault_schedule.h"

#include <algorithm>
#include <cerrno>

namespace berth::internal {
namespace {

bool is_one_of(CallKind kind, std::initializer_list<CallKind> kinds) noexcept {
    return std::ranges::find(kinds, kind) != kinds.end();
}

bool reads(CallKind kind) noexcept {
    return is_one_of(kind,
                     {CallKind::recv, CallKind::recvmsg, CallKind::recvmmsg, CallKind::preadv2});
}

bool writes(CallKind kind) noexcept {
    return is_one_of(kind, {CallKind::send, CallKind::sendto, CallKind::sendmsg, CallKind::sendmmsg,
                            CallKind::pwritev2, CallKind::sendfile});
}

bool waits(CallKind kind) noexcept {
    return is_one_of(
        kind, {CallKind::ppoll, CallKind::pselect, CallKind::epoll_pwait2, CallKind::epoll_pwait});
}

}  // namespace

FaultSchedule& FaultSchedule::add(const CallMatch& match, const Fault& fault) {
    rules_.push_back({match, fault});
    return *this;
}

FaultSchedule& FaultSchedule::fail(const CallMatch& match, int error) {
    Fault fault;
    fault.error = error;
    return add(match, fault);
}

FaultSchedule& FaultSchedule::cut(const CallMatch& match, std::size_t byte_count) {
    Fault fault;
    fault.byte_limit = byte_count;
    return add(match, fault);
}

FaultSchedule& FaultSchedule::delay(const CallMatch& match, Nanoseconds duration) {
    Fault fault;
    fault.delay = duration;
    return add(match, fault);
}

FaultSchedule& FaultSchedule::deliver_late(const CallMatch& match, Nanoseconds duration) {
    Fault fault;
    fault.lateness = duration;
    return add(match, fault);
}

FaultSchedule& FaultSchedule::set_rates(const FaultRates& rates) {
    rates_.fill(rates);
    has_rates_ = true;
    return *this;
}

FaultSchedule& FaultSchedule::set_rates(CallKind kind, const FaultRates& rates) {
    rates_[static_cast<std::size_t>(kind)] = rates;
    has_rates_ = true;
    return *this;
}

void FaultSchedule::clear() {
    rules_.clear();
    rates_.fill({});
    has_rates_ = false;
}

Fault FaultSchedule::decide(const CallFacts& facts) {
    Fault fault;
    if (apply_rules(facts, fault) || roll(facts, fault)) {
        ++fault_count_;
    }
    return fault;
}

bool FaultSchedule::apply_rules(const CallFacts& facts, Fault& fault) {
    // Each rule counts the calls that it speaks of, also those that an earlier one changes.
    bool is_changed = false;
    for (Rule& rule : rules_) {
        const CallMatch& match = rule.match;
        if (match.kind != facts.kind || (match.fd != kAnyDescriptor && match.fd != facts.fd)) {
            continue;
        }
        const std::uint64_t number = ++rule.seen;
        const bool is_over =
            match.times != kAlways && number >= match.nth + std::uint64_t{match.times};
        if (!is_changed && number >= match.nth && !is_over) {
            fault = rule.fault;
            is_changed = true;
        }
    }
    return is_changed;
}

bool FaultSchedule::roll(const CallFacts& facts, Fault& fault) {
    const FaultRates& rates = rates_[static_cast<std::size_t>(facts.kind)];
    if (roll_error(facts, rates, fault) || roll_break(facts, rates, fault)) {
        return true;
    }
    const bool is_cut = roll_cut(facts, rates, fault);
    if (waits(facts.kind) && random_.chance(rates.spurious_readiness)) {
        fault.is_spurious_readiness = true;
    }
    const bool sends = writes(facts.kind) || facts.kind == CallKind::connect;
    if (sends && facts.is_socket && random_.chance(rates.late_delivery)) {
        const auto longest = static_cast<std::uint64_t>(rates.latest_delivery.count());
        fault.lateness = Nanoseconds(static_cast<std::int64_t>(random_.below(longest + 1)));
    }
    return is_cut || fault.is_spurious_readiness || fault.lateness.count() > 0;
}

bool FaultSchedule::roll_error(const CallFacts& facts, const FaultRates& rates, Fault& fault) {
    const bool accepts = facts.kind == CallKind::accept4;
    const bool moves = reads(facts.kind) || writes(facts.kind);
    if ((moves || accepts || waits(facts.kind)) && random_.chance(rates.interrupt)) {
        fault.error = EINTR;
    } else if ((moves || accepts) && facts.is_ready && random_.chance(rates.spurious_eagain)) {
        fault.error = EAGAIN;
    } else if ((accepts || facts.kind == CallKind::socket) &&
               random_.chance(rates.no_descriptors)) {
        fault.error = EMFILE;
    } else if (((writes(facts.kind) && facts.is_socket) || facts.kind == CallKind::socket) &&
               random_.chance(rates.no_buffers)) {
        fault.error = ENOBUFS;
    }
    return fault.error != 0;
}

bool FaultSchedule::roll_break(const CallFacts& facts, const FaultRates& rates, Fault& fault) {
    if (!facts.is_connection || !(reads(facts.kind) || writes(facts.kind))) {
        return false;
    }
    if (random_.chance(rates.reset)) {
        fault.connection_error = ECONNRESET;
    } else if (random_.chance(rates.timed_out)) {
        fault.connection_error = ETIMEDOUT;
    }
    return fault.connection_error != 0;
}

bool FaultSchedule::roll_cut(const CallFacts& facts, const FaultRates& rates, Fault& fault) {
    if (!facts.is_byte_stream || facts.size < 2) {
        return false;
    }
    if ((reads(facts.kind) && random_.chance(rates.short_read)) ||
        (writes(facts.kind) && random_.chance(rates.short_write))) {
        fault.byte_limit = 1 + random_.below(facts.size - 1);
    }
    return fault.is_cut();
}

}  // namespace berth::internal
