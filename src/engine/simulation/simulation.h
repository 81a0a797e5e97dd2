// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kernel in memory, for tests of whatever is written over berth: sockets, pipes, files and epoll
// instances, a network between them, a clock that moves only when somebody waits, and faults by
// script or by dice. While a Simulation lives, berth's system calls go to it. One thread, one
// simulation at a time, and every run of the same program with the same seeds is the same.
//
//   Simulation simulation({.seed = 7, .latency = 200us});
//   const int listener = calls().socket(AF_INET, SOCK_STREAM, 0);    // 1048576
//   simulation.faults().fail({.kind = CallKind::accept4}, EMFILE);
//   ...
//   EXPECT_EQ(simulation.open_descriptor_count(), 0);
//
// Simulated descriptors are numbers from 2^20 up. A call on any other number goes to the real
// kernel, and sockets of other families (netlink) are real. A ppoll() or pselect() looks at real
// ones without waiting; a simulated epoll instance takes simulated ones only (EPERM).
// Nothing of the simulation reaches the real kernel.
//
// Time stands still except in waits, advance(), and calls that a fault or the options make last. A
// wait with nothing ready jumps to the next event of the network or to its timeout. Without either
// it has met a deadlock: see SimulationOptions::on_deadlock.
//
// Modelled as Linux 6.x has it: results, errno, order of wake-ups (what an edge-triggered epoll
// sees), rules of binding, 4-tuples, buffers. Simpler than Linux:
// - No call blocks. What would block answers EAGAIN, or EINPROGRESS for connect(), whether the
//   socket is non-blocking or not; SO_LINGER with a time closes like one without.
// - TCP loses nothing and has no congestion control; a buffer counts payload, not the kernel's
//   book-keeping, so that partial writes are of other sizes than on a real host.
// - No signal is raised: broken_pipe_count() says how often SIGPIPE would have been.
// - No dup(), no fork(), no out-of-band data, no raw or multicast sockets, no descriptors in
//   messages, no error queue. A descriptor has one owner, so close() always closes.
// - A path of an AF_UNIX socket is a name in a table: no directories, no permissions.
// - Routes matter for first packets only; an established connection keeps its way.
// - Pointers are trusted: there is no EFAULT.

#include "src/base/system_calls.h"
#include "src/engine/simulation/simulation_options.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace berth::internal {

namespace simulated {
struct Kernel;
}

class Simulation {
public:
    using Nanoseconds = std::chrono::nanoseconds;

    explicit Simulation(SimulationOptions options = {});
    ~Simulation();
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    /// The one that lives; null for none.
    static Simulation* active() noexcept;

    // Descriptors that no call of the table makes. −1 and errno (EMFILE) like the calls of the
    // kernel that they stand for; to be closed by calls().close().

    int make_epoll();   ///< epoll_create1()
    int make_wakeup();  ///< eventfd(): read and written by preadv2() and pwritev2().
    /// pipe2(): {to read from, to write to}; {−1, −1} when there are not two.
    std::array<int, 2> make_pipe();
    /// socketpair() of SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
    std::array<int, 2> make_socket_pair(int type);
    /// A regular file, open for reading and writing, at its begin.
    int make_file(std::string_view contents);
    std::string file_contents(int fd) const;
    /// Removes the path of an AF_UNIX socket: 0, or −1 and ENOENT.
    int unlink(const std::string& path);

    // Time.

    Nanoseconds now() const noexcept;  ///< CLOCK_MONOTONIC; starts at 1,000 s.
    /// What happens until then happens.
    void advance(Nanoseconds duration);
    /// CLOCK_REALTIME jumps, in either direction.
    void step_wall_clock(Nanoseconds by) noexcept;

    // The network.

    void set_latency(Nanoseconds one_way) noexcept;
    /// Overrules the options, also for a local address; the port does not matter.
    void set_route(const Address& host, Route route);
    /// The TCP connection dies of `error`, and its peer of a reset.
    void break_connection(int fd, int error);

    // What goes wrong, and what has happened.

    /// Rules count from now on.
    FaultSchedule& faults() noexcept;
    /// Calls on simulated descriptors, clock_gettime() included; the helpers here are no calls.
    const CallCounts& counts() const noexcept;
    void reset_counts() noexcept;
    std::size_t open_descriptor_count() const noexcept;
    /// A line for each open descriptor: its number and what it is.
    std::string open_descriptors() const;
    /// Bytes that the queues of all sockets and pipes hold.
    std::size_t buffered_size() const noexcept;
    std::uint64_t broken_pipe_count() const noexcept;
    /// The last calls, a line each, the oldest first.
    std::string trace() const;

private:
    std::unique_ptr<simulated::Kernel> kernel_;
    ScopedSystemCalls scope_;
};

}  // namespace berth::internal
