// SPDX-License-Identifier: Apache-2.0
#include "bench/history/rcu_recheck.h"

#include "bench/history/port_walk.h"

#include <signal.h>
#include <urcu.h>

#include <mutex>

namespace berth::bench {
namespace {

struct RcuSocket : ModelSocket, rcu_head {};

bool looks_taken(const ChainSlot& slot, std::uint16_t port) {
    rcu_read_lock();
    const bool is_taken = slot.holds(port);
    rcu_read_unlock();
    return is_taken;
}

}  // namespace

// The thread that frees what is no longer looked at stays: it must not take the program's signals.
RcuRecheck::RcuRecheck(PortRange range) : LockedChains(range, kChainCount) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    static_cast<void>(get_default_call_rcu_data());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RcuRecheck::~RcuRecheck() { rcu_barrier(); }

ModelSocket* RcuRecheck::open() { return new RcuSocket; }

bool RcuRecheck::bind(ModelSocket& socket, Search& search) {
    PortWalk walk(range(), search.random);
    do {
        ChainSlot& slot = chains_.slot_of(walk.port());
        if (looks_taken(slot, walk.port())) {
            continue;
        }
        const std::lock_guard guard(slot.lock);
        if (!slot.holds(walk.port())) {
            slot.add(socket, walk.port());
            return true;
        }
    } while (walk.advance() && !search.must_stop());
    return false;
}

void RcuRecheck::close(ModelSocket* socket) {
    const std::uint16_t port = socket->port.load(std::memory_order_relaxed);
    if (port != 0) {
        const std::lock_guard guard(chains_.slot_of(port).lock);
        ChainSlot::remove(*socket);
    }
    call_rcu(static_cast<RcuSocket*>(socket),
             [](rcu_head* head) { delete static_cast<RcuSocket*>(head); });
}

void RcuRecheck::begin_thread() { rcu_register_thread(); }

void RcuRecheck::end_thread() { rcu_unregister_thread(); }

}  // namespace berth::bench
