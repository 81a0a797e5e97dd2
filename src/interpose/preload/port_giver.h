// SPDX-License-Identifier: Apache-2.0
#pragma once

// Binds a socket that asks for any port to one of the table's: what bind(0) is, and what comes
// first in a UDP connect() or sendto() and in a listen() without a bind.

#include "src/interpose/preload/call_record.h"
#include "src/interpose/preload/holding.h"

namespace berth::internal {

/// Marks this thread as drawing a port. A signal handler that interrupts the draw may ask for a
/// port too; the random numbers are not made for that, so it finds the mark and leaves the choice
/// to the kernel.
class Drawing {
public:
    Drawing() noexcept;
    Drawing(const Drawing&) = delete;
    Drawing& operator=(const Drawing&) = delete;
    ~Drawing();
    /// False: the choice is the kernel's.
    bool may() const noexcept { return may_; }

private:
    bool may_;
};

/// This process may hold no more ports.
bool is_over_quota() noexcept;

/// Tells the supervisor that a table is full, so that it looks at the kernel's list.
void ask_for_reconcile(TableCore& table) noexcept;

/// Counts a wait for a port down.
class Waiting {
public:
    /// False when no port came in time, or when nobody wants to wait.
    bool wait(CallRecord& record) noexcept;

private:
    std::uint64_t deadline_ms_ = 0;
    std::uint32_t pause_ms_ = 1;
};

class PortGiver {
public:
    /// Not an errno: the kernel decides, as if berth were not there.
    static constexpr int kStepAside = -1;

    PortGiver(int fd, const SocketFacts& facts, const Address& local, CallRecord& record) noexcept;

    /// Not this port, which the socket is about to be connected to.
    void exclude(std::uint16_t port) noexcept { ask_.excluded = port; }

    /// 0: the socket is bound. EADDRINUSE: no port is left. kStepAside, or another errno.
    int give() noexcept;
    /// The same for a call that binds by the way: a socket that has a port already is left alone.
    int give_if_unbound() noexcept;

private:
    // Not an errno: no port is left, for now.
    static constexpr int kExhausted = -2;

    int give_now() noexcept;
    int try_table() noexcept;
    int bind_to(std::uint16_t port, OwnerWord owner) noexcept;
    int last_step() noexcept;
    int bind_by_kernel() noexcept;
    bool has_port() const noexcept;
    void narrow(std::uint32_t packed_range) noexcept;

    int fd_;
    SocketFacts facts_;
    Address local_;
    CallRecord& record_;
    TableCore& table_;
    Footprint footprint_;
    Ask ask_;
    std::uint32_t programs_range_;
    bool was_refused_ = false;
};

}  // namespace berth::internal
