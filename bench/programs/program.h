// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program that the workloads for event loops measure: one way to write a server or client
// (`raw` system calls, `berth`, libevent, …) over one engine. It has a function for each job that
// it can do; a workload compares every program that has the function it needs.
//
// A job's function runs in a process of its own, forked for this one job, on a thread that has
// nothing else to do, with SIGPIPE ignored. It makes its loop, does the job, and returns when the
// job is done; it prints nothing and leaves no thread behind. The descriptors that a job brings are
// non-blocking and close-on-exec, with all options set that a fair comparison needs (TCP_NODELAY,
// congestion control, buffers; accepted sockets inherit them): a program sets none of its own. What
// was transferred is checked by the job, not by the program: it says what it got, in order.
//
// `idle` and `memory` need no function of their own: they are `echo` with other clients, and so is
// the accepting half of `churn`.

#include "bench/programs/pattern.h"

#include <berth/address.h>
#include <berth/error.h>
#include <berth/ports.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace berth::bench {

/// A client that reads many streams to their ends, through the loop.
struct TransferJob {
    /// Connected TCP sockets; index = stream. The program reads each to its end and closes it.
    std::span<const int> sockets;
    /// Page-aligned and resident, as large as one receive may be. A program that has receive memory
    /// of its own uses that instead, as long as it asks for no more at once.
    std::span<std::byte> buffer;
    /// Call it once, when the loop and its memory are there and before the first socket is
    /// registered: the clock starts. Blocks until the server is about to send.
    std::function<void()> start;

    /// The next bytes of a stream, in order.
    void received(std::size_t stream, std::span<const std::byte> data) noexcept {
        StreamCheck& check = checks[stream];
        check.is_intact = check.is_intact && pattern_matches(stream, check.received_count, data);
        check.received_count += data.size();
        total_count += data.size();
        if (progress != nullptr) {
            std::atomic_ref(*progress).store(total_count, std::memory_order_relaxed);
        }
    }

    // What the job keeps about each stream.
    struct StreamCheck {
        std::uint64_t received_count = 0;
        bool is_intact = true;
    };
    std::vector<StreamCheck> checks;  // index = stream
    std::uint64_t total_count = 0;
    std::uint64_t* progress = nullptr;  // where the server looks for total_count; null: nowhere
};

/// A server that sends back whatever comes, in order, on every connection.
struct EchoJob {
    /// A listening TCP socket, not closed by the program.
    int listener = -1;
    /// Return when so many connections have been accepted and have ended; a reset is an end too.
    /// Many may be open at once, so this is also what to be prepared for.
    unsigned connection_count = 0;
    /// What a client sends at once; a receive may still bring a part of it, or several.
    unsigned message_size = 64;
};

/// A client that connects and closes, over and over.
struct ChurnJob {
    Address destination;
    /// How many connections to make, and how many of them to have under way at once.
    unsigned connection_count = 0;
    unsigned parallel_count = 1;
    /// Whose ports to connect from; null: the kernel chooses. Loop thread only.
    /// A program that cannot connect with a table answers `unsupported` when there is one.
    PortTable* ports = nullptr;

    /// Call it once when the loop is there: the clock starts.
    std::function<void()> start;

    /// Before the connection is closed, so that it leaves no TIME_WAIT behind.
    static void reset_on_close(int socket) noexcept;
    /// Exactly one of these for each connection, when it is settled.
    void connected() noexcept { ++connected_count; }
    void failed(int system_errno) noexcept {
        ++failed_count;
        last_errno = system_errno;
    }

    std::uint64_t connected_count = 0;
    std::uint64_t failed_count = 0;
    int last_errno = 0;
};

enum class DatagramMode : std::uint8_t {
    single,    ///< one datagram in each call
    batched,   ///< up to kDatagramBatch in each call (recvmmsg, sendmmsg, or one io_uring_enter)
    segmented  ///< segmentation offload: UDP_SEGMENT and UDP_GRO, which the job has set
};
inline constexpr std::size_t kDatagramBatch = 64;

/// One side of a one-way flow of datagrams. A program answers `unsupported` to a mode or side that
/// it does not have.
struct DatagramsJob {
    /// A connected UDP socket.
    int socket = -1;
    DatagramMode mode = DatagramMode::single;
    bool is_sender = false;
    std::size_t datagram_size = 64;
    /// Call it once when the loop is there: the clock starts.
    std::function<void()> start;

    /// Receiver: each datagram in the order of arrival. False: that was the last one, return.
    bool received(std::span<const std::byte> datagram) noexcept;
    /// Sender: writes the next datagram, of datagram_size bytes. False: there is none left, return.
    /// One that the kernel refuses (EAGAIN) is sent again when the socket is writable.
    bool fill(std::byte* datagram) noexcept;

    std::uint64_t datagram_count = 0;  // to send
    std::uint64_t next_number = 0;     // the number of the next datagram, on either side
    std::uint64_t received_count = 0;
    bool is_intact = true;  // everything that came was right and in order; losses are no error
};

/// What one thread posts to another's loop. The memory is the job's, so that a loop which queues
/// intrusively need not allocate; `next` is for the program's use while the item is under way.
struct Posted {
    Posted* next = nullptr;
    std::uint64_t number = 0;
    std::uint64_t posted_ns = 0;
};

/// A loop that another thread wakes by posting to it.
struct WakeJob {
    /// Called by the other thread, one call at a time: makes the loop's thread call arrived(item)
    /// soon, items in the order in which they were posted.
    using Post = void (*)(void* loop, Posted& item);

    /// Of items in all, numbered from 0.
    std::size_t count = 0;
    /// Call it once when the loop can be posted to: starts the other thread.
    std::function<void(Post post, void* loop)> start;
    /// On the loop's thread, for each item. False: it was the last one, stop the loop.
    std::function<bool(Posted& item)> arrived;
    /// Call it after the loop has stopped and before it goes away: the other thread may still be
    /// inside its last call of Post.
    std::function<void()> join;
};

struct Program {
    std::string_view program;  // one of program_names()
    std::string_view engine;   // one of engine_names()

    // Null where the program has none. **Errors:** what the kernel answered where it should not
    // have; unsupported where the program cannot do this one (a mode, a port table, more
    // descriptors than it takes), before it has touched anything.
    Result<void> (*transfer)(TransferJob& job) = nullptr;
    Result<void> (*echo)(EchoJob& job) = nullptr;
    Result<void> (*churn)(ChurnJob& job) = nullptr;
    Result<void> (*datagrams)(DatagramsJob& job) = nullptr;
    Result<void> (*wake)(WakeJob& job) = nullptr;

    /// Whether this host can run it; null: wherever berth runs. **Errors:** unsupported or
    /// permission_denied, with the reason.
    Result<void> (*probe)() = nullptr;
};

/// Every name that --program and --engine accept, whether it was built or not.
std::span<const std::string_view> program_names() noexcept;
std::span<const std::string_view> engine_names() noexcept;

/// Everything that was built in, in the order of the rows.
std::span<const Program> programs();

// One function for each folder or peer; the optional ones exist when CMake has found the peer and
// defined BERTH_HAVE_BERTH, BERTH_HAVE_LIBEVENT, BERTH_HAVE_LIBUV, BERTH_HAVE_LIBEV,
// BERTH_HAVE_ASIO. The spans are of static memory.
std::span<const Program> raw_programs();       // bench/raw/
std::span<const Program> berth_programs();     // bench/programs/berth_*.cc
std::span<const Program> libevent_programs();  // bench/peers/libevent*.cc
std::span<const Program> libuv_programs();     // bench/peers/libuv*.cc
std::span<const Program> libev_programs();     // bench/peers/libev.cc, bench/peers/libev_*.cc
std::span<const Program> asio_programs();      // bench/peers/asio*.cc

}  // namespace berth::bench
