// SPDX-License-Identifier: Apache-2.0
#pragma once

// What stands behind a PortTable: the table's memory, the spaces in it, this process's
// destinations, and the ways to the kernel. Its parts are in bind.cc, connect.cc, last_step.cc and
// table_state.cc.

#include "src/base/socket_traits.h"
#include "src/ports/destinations.h"
#include "src/ports/footprint.h"
#include "src/ports/reconcile.h"
#include "src/ports/table_core.h"
#include "src/ports/table_memory.h"

#include <berth/ports.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace berth::internal {

class TableState {
public:
    /// Fills a new table and reads the kernel's sockets, as the options say.
    static Result<std::unique_ptr<TableState>> make(TableMemory memory,
                                                    const TableOptions& options);

    ~TableState();
    TableState(const TableState&) = delete;
    TableState& operator=(const TableState&) = delete;

    TableCore& core() noexcept { return core_; }
    const TableCore& core() const noexcept { return core_; }
    Protocol protocol() const noexcept { return protocol_; }
    int descriptor() const noexcept { return memory_.descriptor(); }

    Result<Port> take(TakeFamily family);
    Result<Port> bind(const SocketTraits& socket, const Address& local, const BindOptions& options);
    Result<Port> connect(const SocketTraits& socket, const Address& remote);
    Result<Port> claim(std::uint16_t port, std::uint64_t token);
    Result<Lease> lease(const LeaseOptions& options);
    Result<ReconcileReport> reconcile();
    std::uint32_t sweep();
    TableStatistics statistics() const;

    void release(Port& port) noexcept;

private:
    TableState(TableMemory memory, const TableOptions& options) noexcept;

    // A bind or connect on its way.
    struct Attempt {
        const SocketTraits& socket;
        Address local;   // what bind() gets; its port is filled in
        Address remote;  // of a connection
        Footprint footprint;
        Ask ask;
        OwnerWord owner;
        bool was_refused = false;  // the kernel refused as many ports as one call may try
    };
    // One try of one port. `unsupported`: this kernel has no IP_LOCAL_PORT_RANGE; `promised`: a
    // lease or another's take() came first.
    enum class Outcome : std::uint8_t { done, connecting, refused, promised, unsupported };

    Port make_port(const Footprint& footprint, std::uint16_t number, OwnerWord owner) noexcept {
        const auto second = footprint.take_count == 2 ? footprint.takes[1] : Port::kNoSpace;
        return {this, nullptr, owner, number, footprint.takes[0], second};
    }
    // The port has another holder that gives it back; this one only names it.
    Port make_guest(std::uint16_t number) noexcept {
        return {this, nullptr, kNobody, number, Port::kNoSpace, Port::kNoSpace};
    }
    Result<void> check_socket(const SocketTraits& socket, const Address& address,
                              const char* operation) const;
    Attempt make_attempt(const SocketTraits& socket, const Address& local) noexcept;

    Footprint footprint_of(const SocketTraits& socket, const Address& local) noexcept {
        const bool is_v6 = socket.family == Family::ipv6;
        const bool is_dual_stack = is_v6 && !socket.options.v6_only;
        return local.is_wildcard() && !local.is_v4_mapped()
                   ? footprint_of_wildcard(core_.header(), !is_v6 || is_dual_stack, is_v6)
                   : footprint_of_bind(core_.header(), local.unmapped(), is_dual_stack);
    }

    // bind.cc
    Result<Port> bind_with_care(const SocketTraits& socket, const Address& local,
                                const BindOptions& options);
    // What the caller of bind_fresh() has found already.
    enum class Expectation : std::uint8_t { unknown, none_left };
    Result<Port> bind_fresh(const SocketTraits& socket, const Address& local, Sharing sharing,
                            Expectation expectation, std::uint16_t excluded = 0);
    bool leave_privileged(Attempt& attempt);
    bool is_promised_to_others(const Footprint& footprint, std::uint16_t port) noexcept;
    Result<Port> bind_exactly(const SocketTraits& socket, const Address& local, Sharing sharing);
    Result<std::optional<Port>> try_fresh_ports(Attempt& attempt, Sharing sharing);
    void give_up(const Footprint& footprint, std::uint16_t port, OwnerWord owner,
                 int reason) noexcept;
    Result<Outcome> bind_port(const Attempt& attempt, std::uint16_t port, Sharing sharing);

    // connect.cc
    Result<Port> bind_and_connect(const SocketTraits& socket, const Address& local,
                                  const Address& remote);
    Result<Port> connect_bound(const SocketTraits& socket, const Address& local,
                               const Address& remote);
    Result<Port> connect_tcp(Attempt& attempt);
    Result<std::optional<Port>> try_destination_ports(Attempt& attempt, Destination* destination);
    Result<Outcome> connect_from(const Attempt& attempt, std::uint16_t port);
    Result<std::optional<Port>> refresh_and_retry(Attempt& attempt, Destination& destination);
    int connect_unpromised(const Attempt& attempt);
    Result<Port> connect_by_kernel(Attempt& attempt, Destination* destination);
    Port make_connection(const Attempt& attempt, Destination* destination, std::uint16_t port,
                         bool is_connecting);
    Destination* adopt(Destination* destination, std::uint16_t port);

    // last_step.cc
    bool may_recheck(const Footprint& footprint) noexcept;
    bool reconcile_if_due(const Footprint& footprint);
    void note_exhaustion(const Footprint& footprint);
    Error exhausted(const char* operation, std::string_view subject) noexcept;
    Result<std::optional<Port>> bind_by_kernel(Attempt& attempt, Sharing sharing);
    MaybePort ask_kernel_for_port(const Attempt& attempt);

    std::uint32_t sweep_leases_and_orphans();
    Destinations& destinations();

    // This process's destinations. A forked child makes its own: a thread of its parent may have
    // held a lock of these.
    struct ProcessDestinations {
        std::uint64_t fork_token;
        std::unique_ptr<ProcessDestinations> inherited;
        Destinations destinations;
    };

    TableMemory memory_;
    TableCore core_;
    const Protocol protocol_;
    const std::uint64_t recheck_interval_ms_;
    std::atomic<bool> lacks_port_range_option_{false};  // or it does not reach the range
    std::atomic<ProcessDestinations*> destinations_{nullptr};
    LostSockets lost_sockets_;
};

}  // namespace berth::internal
