// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/interposed.h"
#include "src/interpose/preload/next_calls.h"
#include "src/interpose/preload/port_giver.h"

namespace berth::internal {
namespace {

// listen() on a TCP socket without a port binds it to one. 0: the kernel may go on.
int prepare(int fd) noexcept {
    const HeldKind kind = guest.held.get(fd).kind;
    if (kind == HeldKind::seen || kind == HeldKind::bound || kind == HeldKind::connection) {
        return 0;
    }
    const auto facts = facts_of(fd);
    if (!facts || facts->protocol != Protocol::tcp) {
        return 0;
    }
    const auto local = local_address_of(fd, *facts);
    if (!local || local->port() != 0) {
        return 0;
    }
    CallRecord record(Call::listen);
    PortGiver giver(fd, *facts, *local, record);
    const int error = giver.give_if_unbound();
    const int reported = error == PortGiver::kStepAside ? 0 : error;
    record.finish(reported);
    return reported;
}

}  // namespace

BERTH_INTERPOSED int listen(int fd, int backlog) noexcept {
    if (guest.covers(fd)) {
        const KeptErrno kept;
        if (kept.answer(prepare(fd)) != 0) return -1;
    }
    return next_calls.listen(fd, backlog);
}

}  // namespace berth::internal
