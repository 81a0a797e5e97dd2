// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/next_calls.h"
#include "src/interpose/preload/port_giver.h"

namespace berth::internal {
namespace {

// listen() on a TCP socket without a port binds it to one. 0: the kernel may go on.
int prepare(int fd) noexcept {
    if (!guest.held.is_empty(fd) && guest.held.get(fd).kind != HeldKind::name_only) {
        return 0;
    }
    const auto protocol = protocol_of(fd);
    const auto local = protocol == Protocol::tcp ? local_address_of(fd) : std::nullopt;
    if (!local || local->port() != 0 || is_raw(fd) || !is_at_home(fd)) {
        return 0;
    }
    CallRecord record(Call::listen);
    PortGiver giver(fd, *protocol, *local, record);
    giver.narrow(read_port_range(fd));
    const int error = giver.give();
    const int reported = error == PortGiver::kStepAside ? 0 : error;
    record.finish(reported);
    return reported;
}

}  // namespace
}  // namespace berth::internal

extern "C" __attribute__((visibility("default"))) int listen(int fd, int backlog) noexcept {
    using namespace berth::internal;
    if (guest.covers(fd)) {
        const KeptErrno kept;
        if (kept.answer(prepare(fd)) != 0) return -1;
    }
    return next_calls.listen(fd, backlog);
}
