// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/connection_maker.h"

#include "src/base/clock.h"
#include "src/interpose/preload/next_calls.h"
#include "src/ports/rate_limit.h"

#include <cerrno>

namespace berth::internal {
namespace {

// One that still waits for a closed connection tells nothing of the others.
constexpr unsigned kTryLimit = 16;

bool is_on_its_way(int error) noexcept {
    return error == 0 || error == EINPROGRESS || error == EINTR;
}

}  // namespace

ConnectionMaker::ConnectionMaker(int fd, const SocketFacts& facts, const Address& local,
                                 const Address& remote, CallRecord& record) noexcept
    : fd_(fd),
      remote_(remote),
      record_(record),
      table_(guest.table(Protocol::tcp)),
      footprint_(footprint_of_connection(remote.unmapped().family())),
      handle_(guest.page->destinations.find_or_make(
          DestinationKey::of(remote.unmapped(), local.unmapped().with_port(0)), table_.range())),
      programs_range_(read_port_range(fd, facts)) {
    record.note_protocol(Protocol::tcp);
    ask_.excluded = remote.port();  // else a socket could be connected to itself
    if (programs_range_ != 0) {
        const PortRange whole = table_.range();
        const auto first = static_cast<std::uint16_t>(programs_range_);
        const auto last = static_cast<std::uint16_t>(programs_range_ >> 16);
        ask_.range = {whole.contains(first) ? first : whole.first,
                      whole.contains(last) ? last : whole.last};
    }
}

int ConnectionMaker::connect() noexcept {
    Waiting waiting;
    int error = connect_now();
    while (error == kExhausted && waiting.wait(record_)) {
        error = connect_now();
    }
    if (error == kExhausted) {
        record_.note_exhaustion();
        return EADDRNOTAVAIL;
    }
    return error;
}

int ConnectionMaker::connect_now() noexcept {
    if (is_over_quota()) {
        return kExhausted;
    }
    int error = try_ports();
    DestinationSlot* destination = slot();
    if (error == kExhausted && !was_refused() && destination != nullptr &&
        destination->reuse_closed(coarse_now_ms()) > 0) {
        error = try_ports();
    }
    return error == kExhausted ? last_step() : error;
}

int ConnectionMaker::try_ports() noexcept {
    refusal_count_ = 0;
    for (unsigned i = 0; i < kTryLimit && refusal_count_ < kRefusalLimit; ++i) {
        bool is_aside = false;
        const MaybePort port = draw(is_aside);
        if (!port) {
            return is_aside ? PortGiver::kStepAside : kExhausted;
        }
        if (const int error = connect_from(*port); error != EADDRNOTAVAIL) {
            return error;
        }
    }
    return kExhausted;
}

bool ConnectionMaker::was_refused() const noexcept { return refusal_count_ >= kRefusalLimit; }

MaybePort ConnectionMaker::draw(bool& is_aside) noexcept {
    const Drawing drawing;
    is_aside = !drawing.may();
    if (is_aside) {
        return {};
    }
    DestinationSlot* destination = slot();
    ask_.also_free_in = destination != nullptr ? &destination->unused : nullptr;
    return table_.draw(footprint_, ask_, [destination](std::uint16_t port) {
        return destination == nullptr || destination->claim(port);
    });
}

Held ConnectionMaker::held_of(std::uint16_t port) const noexcept {
    Held held;
    held.kind = HeldKind::connection;
    held.protocol = Protocol::tcp;
    held.port = port;
    held.family = remote_.unmapped().family();
    held.slot = static_cast<std::uint8_t>(handle_.index);
    held.generation = handle_.generation;
    return held;
}

// The note comes first: a blocking connect() may take minutes, and may never return to us.
int ConnectionMaker::connect_from(std::uint16_t port) noexcept {
    const Held held = held_of(port);
    table_.add_connection(held.family, port);
    if (table_.is_promised(footprint_.checks, port) ||
        !write_port_range(fd_, pack_port_range({port, port}))) {
        table_.remove_connection(held.family, port);
        return EADDRNOTAVAIL;
    }
    hold(fd_, held);
    const int error = next_calls.connect(fd_, remote_.data(), remote_.size()) == 0 ? 0 : errno;
    write_port_range(fd_, programs_range_);
    return settle(held, error);
}

int ConnectionMaker::settle(const Held& held, int error) noexcept {
    if (error != EADDRNOTAVAIL) {
        record_.note_port(held.port, PortSource::table);
    }
    if (is_on_its_way(error)) {
        adjust(held);
        return error;
    }
    Held nothing;
    nothing.kind = error == EADDRNOTAVAIL ? HeldKind::nothing : HeldKind::name_only;
    if (!guest.held.replace(fd_, held, nothing)) {
        return error;  // closed meanwhile, by another thread or a signal handler
    }
    guest.process->held_count.fetch_sub(1, std::memory_order_relaxed);
    table_.remove_connection(held.family, held.port);
    DestinationSlot* destination = slot();
    if (error == EADDRNOTAVAIL) {
        record_.note_refusal();  // it stays used, until the supervisor has looked
        const bool only_waits = destination != nullptr && destination->note_refused(held.port);
        refusal_count_ += only_waits ? 0 : 1;
    } else if (destination != nullptr) {
        destination->unclaim(held.port);
    }
    return error;
}

// The kernel ignores the range where it lies outside the namespace's, which may have changed; and
// with TCP_FASTOPEN_CONNECT it chooses later, by itself.
void ConnectionMaker::adjust(const Held& held) noexcept {
    const auto local = local_address_of(fd_);
    if (!local || local->port() == held.port) {
        return;
    }
    Held actual = held;
    actual.port = local->port();
    actual.slot = DestinationHandle::kNone;
    const Held nothing;
    if (!guest.held.replace(fd_, held, actual.port == 0 ? nothing : actual)) {
        return;
    }
    table_.remove_connection(held.family, held.port);
    if (DestinationSlot* destination = slot()) {
        destination->unclaim(held.port);
    }
    if (actual.port != 0) {
        table_.add_connection(held.family, actual.port);
    } else {
        guest.process->held_count.fetch_sub(1, std::memory_order_relaxed);
    }
    record_.note_port(actual.port, PortSource::kernel);
}

int ConnectionMaker::last_step() noexcept {
    DestinationSlot* destination = slot();
    if (destination != nullptr && !pass_once(destination->next_recheck_ms, kRecheckIntervalMs) &&
        !was_refused()) {
        return kExhausted;
    }
    ask_for_reconcile(table_);
    return connect_by_kernel();
}

// The kernel's own search, which is complete.
int ConnectionMaker::connect_by_kernel() noexcept {
    if (guest.options().has_exclusions != 0) {
        return kExhausted;
    }
    if (ask_.range.is_valid() || !write_port_range(fd_, pack_port_range(table_.range()))) {
        return PortGiver::kStepAside;
    }
    const int error = next_calls.connect(fd_, remote_.data(), remote_.size()) == 0 ? 0 : errno;
    write_port_range(fd_, programs_range_);
    if (!is_on_its_way(error)) {
        return error == EADDRNOTAVAIL ? kExhausted : error;
    }
    const auto local = local_address_of(fd_);
    if (local && local->port() != 0) {
        const Held held = held_of(local->port());
        if (DestinationSlot* destination = slot()) {
            destination->claim(held.port);
        }
        table_.add_connection(held.family, held.port);
        hold(fd_, held);
        record_.note_port(held.port, PortSource::kernel);
    }
    table_.header().counters.kernel_choices.fetch_add(1, std::memory_order_relaxed);
    return error;
}

}  // namespace berth::internal
