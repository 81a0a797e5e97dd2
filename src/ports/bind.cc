// SPDX-License-Identifier: Apache-2.0
#include "src/base/system_calls.h"
#include "src/ports/lease_book.h"
#include "src/ports/namespace_settings.h"
#include "src/ports/rate_limit.h"
#include "src/ports/reuse_options.h"
#include "src/ports/scout.h"
#include "src/ports/table_state.h"

#include <array>
#include <cerrno>
#include <cstdio>

namespace berth::internal {
namespace {

int bind_uninterrupted(int fd, const Address& local) noexcept {
    int result = 0;
    do {
        result = calls().bind(fd, local.data(), local.size());
    } while (result != 0 && errno == EINTR);
    return result;
}

struct Subject {
    std::array<char, 64> text{};

    Subject(Protocol protocol, const Address& address) {
        std::snprintf(text.data(), text.size(), "%s %s", std::string(to_string(protocol)).c_str(),
                      address.to_string().c_str());
    }
    std::string_view view() const noexcept { return text.data(); }
};

Error bind_error(int reason, Protocol protocol, const Address& local) {
    const Subject subject(protocol, local);
    switch (reason) {
        case EADDRINUSE:
            return Error(Errc::port_in_use, "bind", subject.view(), reason, "another socket has it",
                         "choose another port, or port 0 for a free one");
        case EACCES:
            return Error(Errc::permission_denied, "bind", subject.view(), reason, nullptr,
                         "ports below net.ipv4.ip_unprivileged_port_start need "
                         "CAP_NET_BIND_SERVICE");
        case EADDRNOTAVAIL:
            return Error(Errc::address_not_available, "bind", subject.view(), reason, nullptr,
                         "use an address of this host; IPv6 may be switched off");
        case EINVAL:
            return Error(Errc::invalid_argument, "bind", subject.view(), reason,
                         "the socket is bound already, or the address does not fit it");
        default:
            return Error::from_errno(reason, "bind", subject.view());
    }
}

// No option that decides about the port is set.
bool is_plain(const SocketOptions& options) noexcept {
    return !options.reuse_address && !options.reuse_port && !options.bind_address_no_port &&
           options.local_port_range.first == 0 && options.local_port_range.last == 0;
}

// The port is new to everybody, which only a bind without sharing can tell.
Result<bool> is_used_by_somebody(const SocketTraits& socket, const Address& local) {
    const Descriptor scout = open_scout(socket, socket.protocol);
    if (!scout.is_open()) {
        return std::unexpected(Error::from_errno(errno, "open a second socket for", "sharing"));
    }
    return bind_uninterrupted(scout.get(), local) != 0 && errno == EADDRINUSE;
}

}  // namespace

Result<void> TableState::check_socket(const SocketTraits& socket, const Address& address,
                                      const char* operation) const {
    if (socket.protocol != protocol_) {
        return std::unexpected(Error(Errc::invalid_argument, operation, to_string(socket.protocol),
                                     0, "the table serves the other protocol",
                                     "make a table for each protocol"));
    }
    if (socket.family != address.family()) {
        return std::unexpected(Error(Errc::invalid_argument, operation, address.to_string(), 0,
                                     "the socket is of the other family",
                                     "write an IPv4 address as ::ffff:a.b.c.d for an IPv6 socket"));
    }
    return {};
}

TableState::Attempt TableState::make_attempt(const SocketTraits& socket,
                                             const Address& local) noexcept {
    Attempt attempt{socket, local, {}, footprint_of(socket, local), {}, claim_word() | kBoundFlag};
    const PortRange asked = socket.options.local_port_range;
    if (asked.first == 0 && asked.last == 0) {
        return attempt;
    }
    // As the kernel does: an end that is 0 or lies outside the whole range stays where it is.
    PortRange range = core_.range();
    range.first = range.contains(asked.first) ? asked.first : range.first;
    range.last = range.contains(asked.last) ? asked.last : range.last;
    attempt.ask.range = range;
    return attempt;
}

// Nearly always there is no more to a bind than this: choose, and ask the kernel once. Whatever
// needs more, an error message included, repeats it with every precaution.
Result<Port> TableState::bind(const SocketTraits& socket, const Address& local,
                              const BindOptions& options) {
    const bool is_usual = socket.protocol == protocol_ && socket.family == local.family() &&
                          local.port() == 0 && options.sharing == Sharing::none &&
                          is_plain(socket.options);
    if (is_usual) {
        const Footprint footprint = footprint_of(socket, local);
        const OwnerWord owner = claim_word() | kBoundFlag;
        if (const MaybePort port = core_.take(footprint, {}, owner)) {
            if (bind_uninterrupted(socket.fd, local.with_port(*port)) == 0) {
                return make_port(footprint, *port, owner);
            }
            give_up(footprint, *port, owner, errno);
        } else {
            return bind_fresh(socket, local, Sharing::none, Expectation::none_left);
        }
    }
    return bind_with_care(socket, local, options);
}

Result<Port> TableState::bind_with_care(const SocketTraits& socket, const Address& local,
                                        const BindOptions& options) {
    BERTH_TRY(check_socket(socket, local, "bind"));
    if (local.port() != 0) {
        return bind_exactly(socket, local, options.sharing);
    }
    if (socket.options.bind_address_no_port) {
        if (bind_uninterrupted(socket.fd, local) != 0) {
            return std::unexpected(bind_error(errno, protocol_, local));
        }
        return make_guest(0);
    }
    return bind_fresh(socket, local, options.sharing, Expectation::unknown);
}

Result<Port> TableState::bind_fresh(const SocketTraits& socket, const Address& local,
                                    Sharing sharing, Expectation expectation,
                                    std::uint16_t excluded) {
    Attempt attempt = make_attempt(socket, local);
    attempt.ask.excluded = excluded;
    ReuseOptions reuse(socket);
    BERTH_TRY(reuse.set_for(sharing));
    if (expectation == Expectation::unknown) {
        if (auto port = BERTH_TRY(try_fresh_ports(attempt, sharing))) {
            return std::move(*port);
        }
    }
    const bool was_refused = attempt.was_refused;
    const bool may_ask = may_recheck(attempt.footprint);
    if (reconcile_if_due(attempt.footprint) || may_ask) {
        attempt.ask.search = RestSearch::thorough;
        if (auto port = BERTH_TRY(try_fresh_ports(attempt, sharing))) {
            return std::move(*port);
        }
    }
    if (was_refused || attempt.was_refused || may_ask) {
        if (auto port = BERTH_TRY(bind_by_kernel(attempt, sharing))) {
            return std::move(*port);
        }
        note_exhaustion(attempt.footprint);
    }
    return std::unexpected(exhausted("bind", Subject(protocol_, local).view()));
}

Result<std::optional<Port>> TableState::try_fresh_ports(Attempt& attempt, Sharing sharing) {
    attempt.was_refused = false;
    for (unsigned i = 0; i < kRefusalLimit; ++i) {
        const auto port = core_.take(attempt.footprint, attempt.ask, attempt.owner);
        if (!port) {
            return std::optional<Port>();
        }
        const Result<Outcome> outcome = bind_port(attempt, *port, sharing);
        if (!outcome && outcome.error().system_errno() == EACCES && leave_privileged(attempt)) {
            continue;
        }
        if (BERTH_TRY(outcome) == Outcome::done) {
            return make_port(attempt.footprint, *port, attempt.owner);
        }
    }
    attempt.was_refused = true;
    return std::optional<Port>();
}

// The range begins with ports that this process may not bind: goes on without them. False when that
// is not so, or when nothing would be left.
bool TableState::leave_privileged(Attempt& attempt) {
    const auto settings = read_namespace_settings();
    PortRange range = attempt.ask.range.is_valid() ? attempt.ask.range : core_.range();
    if (!settings || range.first >= settings->unprivileged_start ||
        range.last < settings->unprivileged_start) {
        return false;
    }
    range.first = settings->unprivileged_start;
    attempt.ask.range = range;
    return true;
}

// Binds a claimed port. When the kernel refuses it, it is marked; any other error gives it back.
Result<TableState::Outcome> TableState::bind_port(const Attempt& attempt, std::uint16_t port,
                                                  Sharing sharing) {
    const Address local = attempt.local.with_port(port);
    if (sharing != Sharing::none) {
        const auto is_used = is_used_by_somebody(attempt.socket, local);
        if (!is_used) {
            core_.unclaim(attempt.footprint, port, attempt.owner);
            return std::unexpected(is_used.error());
        }
        if (*is_used) {
            core_.mark_kernel_held(attempt.footprint, port, attempt.owner);
            return Outcome::refused;
        }
    }
    if (bind_uninterrupted(attempt.socket.fd, local) == 0) {
        return Outcome::done;
    }
    const int reason = errno;
    give_up(attempt.footprint, port, attempt.owner, reason);
    if (reason == EADDRINUSE) {
        return Outcome::refused;
    }
    return std::unexpected(bind_error(reason, protocol_, local));
}

// After a failed bind of a claimed port: the kernel's word that somebody has it counts, any other
// error says nothing about the port.
void TableState::give_up(const Footprint& footprint, std::uint16_t port, OwnerWord owner,
                         int reason) noexcept {
    if (reason == EADDRINUSE) {
        core_.mark_kernel_held(footprint, port, owner);
    } else {
        core_.unclaim(footprint, port, owner);
    }
}

// A port that somebody has without a socket, on an address that overlaps, too: of that the kernel
// knows nothing. The caller's own process may bind what it took.
bool TableState::is_promised_to_others(const Footprint& footprint, std::uint16_t port) noexcept {
    return core_.is_promised(all_spaces(footprint), port, own_word());
}

Result<Port> TableState::bind_exactly(const SocketTraits& socket, const Address& local,
                                      Sharing sharing) {
    const Attempt attempt = make_attempt(socket, local);
    ReuseOptions reuse(socket);
    if (sharing != Sharing::none) {
        BERTH_TRY(reuse.set_for(sharing));
    }
    const std::uint16_t number = local.port();
    if (kind_of(core_.space(attempt.footprint.takes[0]).owner(number)) == OwnerKind::lease) {
        expire_leases(core_);
    }
    bool was_kernels = false;
    const bool is_claimed =
        core_.claim_exactly(attempt.footprint, number, attempt.owner, was_kernels);
    const bool is_promised =
        sharing == Sharing::none && is_promised_to_others(attempt.footprint, number);
    if (!is_promised && bind_uninterrupted(socket.fd, local) == 0) {
        return is_claimed ? make_port(attempt.footprint, number, attempt.owner)
                          : make_guest(number);
    }
    const int reason = is_promised ? 0 : errno;
    if (is_claimed && reason == EADDRINUSE) {
        core_.mark_kernel_held(attempt.footprint, number, attempt.owner);
    } else if (is_claimed) {
        core_.give_up_exactly(attempt.footprint, number, attempt.owner, was_kernels);
    }
    if (is_promised) {
        return std::unexpected(Error(Errc::port_in_use, "bind", Subject(protocol_, local).view(), 0,
                                     "it is leased, or taken by another process",
                                     "claim it with the lease's token, or wait for its end"));
    }
    return std::unexpected(bind_error(reason, protocol_, local));
}

}  // namespace berth::internal
