// SPDX-License-Identifier: Apache-2.0
#pragma once

// Local ports in constant time. The kernel searches its port range on every bind(0) and connect();
// on a host that holds very many sockets that search becomes the cost of everything. A PortTable
// keeps the same knowledge as bitmaps: it answers at once, uniformly at random over the free
// ports, until the very last one.
//
// The kernel stays the judge. What the table believes is a hint that one refused bind() corrects;
// what other programs hold is learned from the kernel's own list (reconcile()). A port is given
// back by the destructor of its Port, rests for a while (late packets, a peer's TIME_WAIT), and is
// free again; resting ports are used early, oldest first, before the table says ports_exhausted.
//
// Limits: one table serves one protocol in one network namespace, both families; ten specific local
// addresses are told apart, more share one coarser set. Linux >= 5.15; connect() keeps sharing
// ports between destinations from 6.3 on.
//
// Threads: every function of a PortTable may be called from any thread. Nothing in the table waits
// for another process: one that is stopped or killed at any instruction blocks nobody. (connect()
// keeps its list of each destination behind a mutex of this process, never across a system call;
// open() waits while another process makes the same file.)
//
// Source: facts of net/ipv4/inet_connection_sock.c, inet_hashtables.c, udp.c; RFC 6056.

#include <berth/address.h>
#include <berth/descriptor.h>
#include <berth/error.h>
#include <berth/export.h>
#include <berth/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth {

namespace internal {
class TableState;
struct Destination;
}  // namespace internal

struct TableOptions {
    /// The ports to give out. Default: net.ipv4.ip_local_port_range of this namespace.
    std::optional<PortRange> range = std::nullopt;
    /// How long a released port is not given out while others are free. Default: UDP 500 ms,
    /// TCP 60 s (the kernel's TIME_WAIT). 0: no rest.
    std::optional<std::chrono::milliseconds> rest_period = std::nullopt;
    /// Leave out net.ipv4.ip_local_reserved_ports.
    bool honour_reserved = true;
    /// Ports of the range never to give out, whatever the namespace reserves. Of a table that
    /// somebody else made, his count.
    std::vector<PortRange> excluded = {};
    /// Learn the kernel's sockets when the table is made (not when it is opened). **Cost:** about 1
    /// ms per 2,000 sockets.
    bool reconcile_at_start = true;
    /// While the table is exhausted, bind() and connect() ask the kernel at most this often, so
    /// that failing stays cheap; a port that a stranger frees is seen after at most this long, or
    /// 20 times as long as the kernel took to answer. 0: the kernel is asked every time. (take()
    /// and lease() have no socket to ask with; they see it after the next reconcile, in a second.)
    std::chrono::milliseconds recheck_interval{100};
};

/// Which family a port is taken in; `both` is what a dual-stack socket needs.
enum class TakeFamily : std::uint8_t { both, ipv4, ipv6 };

/// Sharing a port with other sockets, which berth never does unless it is asked for by name.
enum class Sharing : std::uint8_t { none, reuse_address, reuse_port };

struct BindOptions {
    Sharing sharing = Sharing::none;
};

/// A local port, held until it goes out of scope. Move-only. Must not outlive its PortTable.
/// Closing the socket is the caller's: close it first, then let the Port go.
class BERTH_API Port {
public:
    Port() noexcept = default;
    Port(Port&& other) noexcept { take_over(other); }
    Port& operator=(Port&& other) noexcept {
        if (this != &other) {
            release();
            take_over(other);
        }
        return *this;
    }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port() { release(); }

    /// Host order; 0 when empty, and for a socket whose port connect() will choose.
    std::uint16_t number() const noexcept { return number_; }
    explicit operator bool() const noexcept { return number_ != 0; }
    /// connect() on a non-blocking socket answered EINPROGRESS.
    bool is_connecting() const noexcept { return is_connecting_; }
    /// Gives the port back now. Harmless when empty, moved from or given back already.
    void release() noexcept {
        if (number_ != 0) give_back();
    }
    /// Lets go without giving back: the port stays taken while its socket, or for a port that was
    /// only taken, this process lives.
    std::uint16_t detach() noexcept {
        if (destination_ != nullptr && number_ != 0) let_destination_go();
        return std::exchange(number_, std::uint16_t{0});
    }

private:
    friend class internal::TableState;
    static constexpr std::uint32_t kNoSpace = 0xff;
    static constexpr std::uint32_t kNoSpaces = 0xffff;

    Port(internal::TableState* table, internal::Destination* destination, std::uint64_t owner,
         std::uint16_t number, unsigned space, unsigned other_space) noexcept
        : table_(table),
          destination_(destination),
          owner_(owner),
          spaces_(space | other_space << 8),
          number_(number) {}

    void give_back() noexcept;
    void let_destination_go() noexcept;
    void take_over(Port& other) noexcept {
        table_ = other.table_;
        destination_ = other.destination_;
        owner_ = other.owner_;
        spaces_ = other.spaces_;
        number_ = std::exchange(other.number_, std::uint16_t{0});
        is_connecting_ = other.is_connecting_;
    }

    internal::TableState* table_ = nullptr;
    internal::Destination* destination_ = nullptr;  // of a TCP connection, else null
    std::uint64_t owner_ = 0;                       // what stands in the table for this holder
    std::uint32_t spaces_ = kNoSpaces;  // one or two spaces that the port is taken in, 8 bits each
    std::uint16_t number_ = 0;
    bool is_connecting_ = false;
};

/// Where a lease's ports must lie.
enum class LeaseShape : std::uint8_t {
    any,            ///< Anywhere.
    consecutive,    ///< One run of `count` ports.
    even_odd_pairs  ///< Pairs that start at an even port, as RTP and RTCP want; `count` is even.
};

struct LeaseOptions {
    std::uint32_t count = 1;  ///< 1..64 ports.
    LeaseShape shape = LeaseShape::any;
    std::chrono::milliseconds expires_in{60'000};  ///< 1 ms .. 365 days.
};

/// Ports reserved without a socket, until a deadline, by number and token. A value: it may be
/// copied, printed, and handed to another process. The ports come back when they are given back or
/// the deadline passes, also when every process that knew of them is gone.
struct Lease {
    std::vector<std::uint16_t> ports;     ///< Ascending.
    std::uint64_t token = 0;              ///< Never 0 in a lease that was granted; unguessable.
    std::chrono::nanoseconds deadline{};  ///< CLOCK_BOOTTIME.
};

struct ReconcileReport {
    std::uint32_t sockets_seen = 0;
    std::uint32_t ports_learned = 0;    ///< Free in the table, held in the kernel: now kernel-held.
    std::uint32_t ports_freed = 0;      ///< Kernel-held in the table, free in the kernel.
    std::uint32_t ports_reclaimed = 0;  ///< Of dead holders, lost sockets and expired leases.
    /// TCP sockets that are only bound were listed too. **Since kernel:** 6.8.
    bool saw_bound_only = false;
    /// The kernel's list changed while it was read, three times: nothing was freed from it.
    bool was_interrupted = false;
};

struct TableStatistics {
    PortRange range;
    std::uint32_t allowed_count = 0;  ///< Ports of the range that are not reserved.
    std::uint32_t free_count = 0;     ///< For a wildcard IPv4 bind; includes no resting port.
    std::uint32_t resting_count = 0;
    std::uint32_t leased_count = 0;
    std::uint64_t refused_count = 0;        ///< Binds and connects that the kernel refused.
    std::uint64_t kernel_choice_count = 0;  ///< Ports that the kernel chose as the last step.
    std::uint64_t early_rest_count = 0;     ///< Times that resting ports were used early.
    std::uint64_t exhausted_count = 0;      ///< Answers "ports_exhausted".
    std::uint64_t reconcile_count = 0;
    std::uint64_t reclaimed_count = 0;  ///< Ports taken back from dead holders and leases.
};

class BERTH_API PortTable {
public:
    /// A table in this process's memory.
    /// **Errors:** invalid_argument (range), out_of_memory, permission_denied and unsupported when
    /// the kernel's sockets cannot be read.
    static Result<PortTable> create(Protocol protocol, const TableOptions& options = {});
    /// A table in a memfd, to be inherited or passed; descriptor() is the memfd, close-on-exec.
    static Result<PortTable> create_shared(Protocol protocol, const TableOptions& options = {});
    /// The table in a file, made (mode 0600) when missing; /dev/shm is a good place. Options other
    /// than `recheck_interval` count only for the one who makes it.
    /// **Errors:** permission_denied (somebody else's file, or a mode other than 0600),
    /// table_mismatch (another version, protocol, boot, network or pid namespace), table_damaged.
    static Result<PortTable> open(const std::string& path, Protocol protocol,
                                  const TableOptions& options = {});
    /// The table in a descriptor that create_shared() made, here or in another process.
    static Result<PortTable> attach(Descriptor memory, Protocol protocol,
                                    const TableOptions& options = {});

    PortTable(PortTable&&) noexcept;
    PortTable& operator=(PortTable&&) noexcept;
    ~PortTable();

    Protocol protocol() const noexcept;
    PortRange range() const noexcept;
    /// The shared memory's descriptor; -1 for a table in process memory. Owned by the table.
    int descriptor() const noexcept;

    /// A free port, without a socket. **Cost:** no system call, O(1), below a microsecond.
    /// **Errors:** ports_exhausted.
    [[nodiscard]] Result<Port> take(TakeFamily family = TakeFamily::both);

    /// Binds `socket` to `local`. Port 0: a fresh port of the table, in use by nobody, whatever the
    /// socket's SO_REUSEADDR and SO_REUSEPORT say. Another port: that one, with the socket's
    /// options as they are. With IP_BIND_ADDRESS_NO_PORT and port 0 only the address is bound and
    /// an empty Port returned: connect() will choose.
    /// **Errors:** ports_exhausted, port_in_use, address_not_available, permission_denied,
    /// invalid_argument (another protocol, already bound). **Cost:** one system call; with reuse
    /// options set, up to 4 more.
    [[nodiscard]] Result<Port> bind(const Socket& socket, const Address& local,
                                    const BindOptions& options = {});
    /// The same for a descriptor that berth did not make. **Cost:** 6 or 7 system calls more.
    [[nodiscard]] Result<Port> bind(int fd, const Address& local, const BindOptions& options = {});

    /// Connects `socket` to `remote` from a port of the table. TCP: a port that is unused for this
    /// destination, so that one port serves many destinations; UDP: a port of its own. A blocking
    /// socket waits for the answer. Never chooses the port that would connect a socket to itself.
    /// **Errors:** ports_exhausted, refused, unreachable, timed_out, address_not_available,
    /// invalid_argument. A UDP socket stays bound after an error. **Cost:** connect() and for TCP
    /// two setsockopt() and two getsockname(), for UDP bind() and getsockname().
    /// **Since kernel:** 6.3 for sharing; before, the port is bound explicitly.
    [[nodiscard]] Result<Port> connect(const Socket& socket, const Address& remote);
    [[nodiscard]] Result<Port> connect(int fd, const Address& remote);

    /// Reserves ports without a socket, in both families. **Cost:** up to 100 microseconds.
    /// **Errors:** ports_exhausted, too_many_leases, invalid_argument.
    [[nodiscard]] Result<Lease> lease(const LeaseOptions& options = {});
    /// Makes one port of a lease the caller's own. **Errors:** not_holder, lease_expired.
    [[nodiscard]] Result<Port> claim(std::uint16_t port, std::uint64_t token);
    /// Moves the deadline of a lease to `expires_in` from now.
    /// **Errors:** not_holder, lease_expired.
    Result<std::chrono::nanoseconds> renew(std::uint64_t token,
                                           std::chrono::milliseconds expires_in);
    /// Gives all unclaimed ports of a lease back. **Errors:** not_holder.
    Result<void> give_back(std::uint64_t token);

    /// Reads the kernel's sockets and the namespace's range and reserved ports, and corrects the
    /// table; takes ports back from dead holders and expired leases. Others may allocate meanwhile.
    /// Call it every few seconds where other programs use the same range; berth itself does when
    /// the table is exhausted. **Cost:** about 1 ms per 2,000 sockets.
    Result<ReconcileReport> reconcile();
    /// Takes ports back from dead holders and expired leases only; a dead holder's socket that
    /// lives on in another process is noticed by reconcile(). **Cost:** below 1 ms. Returns how
    /// many.
    std::uint32_t sweep();

    TableStatistics statistics() const;

private:
    explicit PortTable(std::unique_ptr<internal::TableState> state) noexcept;
    std::unique_ptr<internal::TableState> state_;
};

}  // namespace berth
