// SPDX-License-Identifier: Apache-2.0
#include "src/base/system_calls.h"
#include "src/ports/kernel_view.h"
#include "src/ports/rate_limit.h"
#include "src/ports/scout.h"
#include "src/ports/table_state.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace berth::internal {
namespace {

// At most this part of the time goes into asking the kernel about a full destination.
constexpr std::uint64_t kRecheckShare = 20;

// An interrupted connect() goes on in the kernel: waits for its end and returns its errno.
int await_connection(int fd) noexcept {
    pollfd waiting{fd, POLLOUT, 0};
    while (::poll(&waiting, 1, -1) < 0) {
        if (errno != EINTR) return errno;
    }
    int reason = 0;
    socklen_t size = sizeof reason;
    return calls().getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &size) == 0 ? reason : errno;
}

// 0, EINPROGRESS for a connection on its way, or what went wrong.
int connect_uninterrupted(int fd, const Address& remote) noexcept {
    if (calls().connect(fd, remote.data(), remote.size()) == 0) {
        return 0;
    }
    return errno == EINTR ? await_connection(fd) : errno;
}

// The socket has no port any more.
void disconnect(int fd) noexcept {
    const sockaddr nowhere{AF_UNSPEC, {}};
    calls().connect(fd, &nowhere, sizeof nowhere);
}

// After a TCP connection has failed, getsockname() goes on naming the port that the socket no
// longer has, and the kernel's next connect() chooses another. A socket that has a port refuses to
// be bound; of one that has none this takes the name off.
bool has_only_the_name_of_a_port(const SocketTraits& socket, const Address& local) noexcept {
    const int on = 1;
    if (socket.protocol != Protocol::tcp ||
        calls().setsockopt(socket.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0) {
        return false;
    }
    const Address without_port = local.with_port(0);
    const bool has_none = calls().bind(socket.fd, without_port.data(), without_port.size()) == 0;
    const int users = socket.options.bind_address_no_port ? 1 : 0;
    calls().setsockopt(socket.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &users, sizeof users);
    return has_none;
}

Error connect_error(int reason, const Address& remote) {
    if (reason == ENOPROTOOPT) {  // what an ICMP "protocol unreachable" becomes
        return Error(Errc::unreachable, "connect", remote.to_string(), reason,
                     "the destination does not speak this protocol");
    }
    if (reason == EADDRNOTAVAIL) {
        return Error(Errc::address_not_available, "connect", remote.to_string(), reason,
                     "this host has no address to reach it from",
                     "look at 'ip route get'; IPv6 may be switched off");
    }
    return Error::from_errno(reason, "connect", remote.to_string());
}

// The runs of ports that nobody has without a socket, for the kernel to choose from: it knows of no
// lease and of no excluded port. Each costs a search of the kernel's, so there are not many.
std::vector<PortRange> unpromised_runs(const TableCore& core, const Footprint& footprint,
                                       PortRange range) {
    constexpr std::size_t kRunLimit = 16;
    std::vector<PortRange> runs;
    bool is_in_run = false;
    for (unsigned number = range.first; number <= range.last; ++number) {
        const auto port = static_cast<std::uint16_t>(number);
        if (core.is_promised(footprint.checks, port) || test(core.header().excluded, port)) {
            is_in_run = false;
        } else if (is_in_run) {
            runs.back().last = port;
        } else if (runs.size() == kRunLimit) {
            break;
        } else {
            runs.push_back({port, port});
            is_in_run = true;
        }
    }
    return runs;
}

// Why a connect() found no port: because none is left, or because there is no source address.
// Connecting a UDP socket asks for the route alone.
int route_error(const SocketTraits& socket, const Address& remote) noexcept {
    const Descriptor scout = open_scout(socket, Protocol::udp);
    if (scout.is_open() && calls().connect(scout.get(), remote.data(), remote.size()) != 0) {
        return errno == EADDRNOTAVAIL || errno == ENETUNREACH ? errno : 0;
    }
    return 0;
}

}  // namespace

Result<Port> TableState::connect(const SocketTraits& socket, const Address& remote) {
    BERTH_TRY(check_socket(socket, remote, "connect"));
    if (remote.port() == 0) {
        return std::unexpected(Error(Errc::invalid_argument, "connect", remote.to_string(), 0,
                                     "it has no port", "give a port from 1 to 65535"));
    }
    const Address local = BERTH_TRY(read_local_address(socket.fd));
    if (local.port() != 0 && !has_only_the_name_of_a_port(socket, local)) {
        return connect_bound(socket, local, remote);
    }
    if (protocol_ == Protocol::udp || lacks_port_range_option_.load(std::memory_order_relaxed)) {
        return bind_and_connect(socket, local, remote);
    }
    Attempt attempt = make_attempt(socket, local.with_port(0));
    attempt.remote = remote;
    attempt.footprint = footprint_of_connection(remote.unmapped().family());
    attempt.ask.excluded = remote.port();
    auto connected = connect_tcp(attempt);
    if (!connected && lacks_port_range_option_.load(std::memory_order_relaxed)) {
        return bind_and_connect(socket, local, remote);
    }
    return connected;
}

// A socket that has its port already, most likely by a Port of the caller's; if nobody's, it gets
// one, so that the port is held while the socket lives.
Result<Port> TableState::connect_bound(const SocketTraits& socket, const Address& local,
                                       const Address& remote) {
    const int reason = connect_uninterrupted(socket.fd, remote);
    if (reason != 0 && reason != EINPROGRESS) {
        return std::unexpected(connect_error(reason, remote));
    }
    const Footprint footprint = footprint_of(socket, local);
    const OwnerWord owner = claim_word() | kBoundFlag;
    Port port = core_.claim_exactly(footprint, local.port(), owner)
                    ? make_port(footprint, local.port(), owner)
                    : make_guest(local.port());
    port.is_connecting_ = reason == EINPROGRESS;
    return port;
}

Result<Port> TableState::bind_and_connect(const SocketTraits& socket, const Address& local,
                                          const Address& remote) {
    Port port =
        BERTH_TRY(bind_fresh(socket, local, Sharing::none, Expectation::unknown, remote.port()));
    const int reason = connect_uninterrupted(socket.fd, remote);
    if (reason != 0 && reason != EINPROGRESS) {
        // The socket stays bound, and so the port in use, until the caller closes it.
        core_.mark_kernel_held(footprint_of(socket, local), port.number(), port.owner_);
        port.detach();
        return std::unexpected(connect_error(reason, remote));
    }
    port.is_connecting_ = reason == EINPROGRESS;
    return port;
}

Result<Port> TableState::connect_tcp(Attempt& attempt) {
    const DestinationPin pin =
        destinations().find_or_make(attempt.remote.unmapped(), attempt.local.unmapped());
    Destination* destination = pin.get();
    const std::uint64_t started = coarse_now_ms();
    if (auto port = BERTH_TRY(try_destination_ports(attempt, destination))) {
        return std::move(*port);
    }
    if (lacks_port_range_option_.load(std::memory_order_relaxed)) {
        return std::unexpected(exhausted("connect", attempt.remote.to_string()));
    }
    const bool is_due =
        destination == nullptr || destination->may_recheck(started, recheck_interval_ms_);
    if (is_due && destination != nullptr) {
        if (auto port = BERTH_TRY(refresh_and_retry(attempt, *destination))) {
            return std::move(*port);
        }
    }
    if (!is_due && !attempt.was_refused) {
        return std::unexpected(exhausted("connect", attempt.remote.to_string()));
    }
    auto port = connect_by_kernel(attempt, destination);
    if (destination != nullptr) {
        const std::uint64_t ended = coarse_now_ms();
        const std::uint64_t share =
            recheck_interval_ms_ == 0 ? 0 : (ended - started) * kRecheckShare;
        destination->postpone_recheck(ended + std::max(recheck_interval_ms_, share));
    }
    return port;
}

Result<std::optional<Port>> TableState::try_destination_ports(Attempt& attempt,
                                                              Destination* destination) {
    attempt.was_refused = false;
    for (unsigned i = 0; i < kRefusalLimit; ++i) {
        const auto port =
            destination != nullptr
                ? destination->take(core_, attempt.footprint, attempt.ask)
                : core_.draw(attempt.footprint, attempt.ask, [](std::uint16_t) { return true; });
        if (!port) {
            return std::optional<Port>();
        }
        const Result<Outcome> outcome = connect_from(attempt, *port);
        if (outcome && (*outcome == Outcome::done || *outcome == Outcome::connecting)) {
            return make_connection(attempt, destination, *port, *outcome == Outcome::connecting);
        }
        const bool is_refused = outcome && *outcome == Outcome::refused;
        core_.remove_connection(attempt.remote.unmapped().family(), *port);
        if (destination != nullptr) {
            is_refused ? destination->mark_foreign(*port) : destination->unclaim(*port);
        }
        if (BERTH_TRY(outcome) == Outcome::unsupported) {
            return std::optional<Port>();
        }
        const std::uint64_t refusal_count = is_refused ? 1 : 0;
        core_.header().counters.refused.fetch_add(refusal_count, std::memory_order_relaxed);
    }
    attempt.was_refused = true;
    return std::optional<Port>();
}

// Lets the kernel choose from a range of one port, which it does without a search and without
// binding the port: it stays usable for other destinations.
Result<TableState::Outcome> TableState::connect_from(const Attempt& attempt, std::uint16_t port) {
    const int fd = attempt.socket.fd;
    core_.add_connection(attempt.remote.unmapped().family(), port);
    // Claimed, so now looked: of a lease and a connection at the same moment one sees the other.
    if (core_.is_promised(attempt.footprint.checks, port)) {
        return Outcome::promised;
    }
    if (const int reason = set_port_range(fd, {port, port}); reason == ENOPROTOOPT) {
        lacks_port_range_option_.store(true, std::memory_order_relaxed);
        return Outcome::unsupported;
    } else if (reason != 0) {
        return std::unexpected(Error::from_errno(reason, "set", "IP_LOCAL_PORT_RANGE"));
    }
    const int reason = connect_uninterrupted(fd, attempt.remote);
    set_port_range(fd, attempt.socket.options.local_port_range);
    switch (reason) {
        case 0:
            return Outcome::done;
        case EINPROGRESS:
            return Outcome::connecting;
        case EADDRNOTAVAIL:
            return Outcome::refused;
        default:
            return std::unexpected(connect_error(reason, attempt.remote));
    }
}

Port TableState::make_connection(const Attempt& attempt, Destination* destination,
                                 std::uint16_t port, bool is_connecting) {
    // The kernel ignores a range outside the namespace's, which may have changed meanwhile.
    const auto local = read_local_address(attempt.socket.fd);
    if (local && local->port() != port) {
        const Family family = attempt.remote.unmapped().family();
        core_.remove_connection(family, port);
        core_.add_connection(family, local->port());
        if (destination != nullptr) {
            destination->unclaim(port);
        }
        port = local->port();
        destination = adopt(destination, port);
    }
    Port made = make_port(attempt.footprint, port, attempt.owner);
    if (destination != nullptr) {
        destination->pin();  // by the Port, see release()
    }
    made.destination_ = destination;
    made.is_connecting_ = is_connecting;
    return made;
}

// Notes a port that the kernel chose; null for one that no destination can keep.
Destination* TableState::adopt(Destination* destination, std::uint16_t port) {
    const PortRange range = core_.range();
    if (destination == nullptr || !range.contains(port)) {
        return nullptr;
    }
    destination->adopt(port, range);
    return destination;
}

Result<std::optional<Port>> TableState::refresh_and_retry(Attempt& attempt,
                                                          Destination& destination) {
    // Without the kernel's list the kernel's own choice, which follows, is still right.
    const auto listed = read_kernel_connections(attempt.remote.unmapped());
    if (!listed) {
        return std::optional<Port>();
    }
    const Address local = attempt.local.unmapped();
    std::vector<std::uint16_t> in_use;
    for (const KernelSocket& socket : listed->sockets) {
        if (local.is_wildcard() || socket.local.unmapped().bytes() == local.bytes()) {
            in_use.push_back(socket.local.port());
        }
    }
    destination.refresh(in_use, core_.range());
    return try_destination_ports(attempt, &destination);
}

// Lets the kernel choose a port that nobody has without a socket. 0 or an errno.
int TableState::connect_unpromised(const Attempt& attempt) {
    const int fd = attempt.socket.fd;
    const PortRange whole = attempt.ask.range.is_valid() ? attempt.ask.range : core_.range();
    int reason = EADDRNOTAVAIL;
    for (const PortRange run : unpromised_runs(core_, attempt.footprint, whole)) {
        set_port_range(fd, run);
        reason = connect_uninterrupted(fd, attempt.remote);
        if (reason != EADDRNOTAVAIL) break;
    }
    set_port_range(fd, attempt.socket.options.local_port_range);
    return reason;
}

Result<Port> TableState::connect_by_kernel(Attempt& attempt, Destination* destination) {
    constexpr unsigned kAttemptLimit = 4;
    const int fd = attempt.socket.fd;
    const Family family = attempt.remote.unmapped().family();
    for (unsigned i = 0; i < kAttemptLimit; ++i) {
        const int reason = connect_unpromised(attempt);
        if (reason == EADDRNOTAVAIL) {
            if (const int route = route_error(attempt.socket, attempt.remote); route != 0) {
                return std::unexpected(connect_error(route, attempt.remote));
            }
            note_exhaustion(attempt.footprint);
            break;
        }
        if (reason != 0 && reason != EINPROGRESS) {
            return std::unexpected(connect_error(reason, attempt.remote));
        }
        const Address local = BERTH_TRY(read_local_address(fd));
        if (local.unmapped() == attempt.remote.unmapped()) {
            // The only port left is the destination's own: the socket is connected to itself.
            disconnect(fd);
            break;
        }
        core_.add_connection(family, local.port());
        // Claimed, so now looked, as in connect_from().
        if (!core_.is_promised(attempt.footprint.checks, local.port())) {
            core_.header().counters.kernel_choices.fetch_add(1, std::memory_order_relaxed);
            return make_connection(attempt, adopt(destination, local.port()), local.port(),
                                   reason == EINPROGRESS);
        }
        core_.remove_connection(family, local.port());
        disconnect(fd);
    }
    return std::unexpected(exhausted("connect", attempt.remote.to_string()));
}

}  // namespace berth::internal
