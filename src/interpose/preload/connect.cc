// SPDX-License-Identifier: Apache-2.0
#include "src/interpose/preload/connection_maker.h"
#include "src/interpose/preload/interposed.h"
#include "src/interpose/preload/next_calls.h"

#include <cerrno>

namespace berth::internal {
namespace {

int connect_by_program(int fd, const sockaddr* address, socklen_t size) {
    return next_calls.connect(fd, address, size) == 0 ? 0 : errno;
}

// Takes a connection apart; a port that was bound stays the socket's.
int disconnect(int fd, const sockaddr* address, socklen_t size) {
    const Held held = guest.held.get(fd);
    const int error = connect_by_program(fd, address, size);
    if (error == 0 && held.kind != HeldKind::bound && is_own_memory()) {
        let_go(fd);
    }
    return error;
}

// The connection that was begun before: still on its way, there, or failed for good.
int connect_again(int fd, const sockaddr* address, socklen_t size) {
    const int error = connect_by_program(fd, address, size);
    const bool stands = error == 0 || error == EINPROGRESS || error == EALREADY ||
                        error == EISCONN || error == EINTR;
    if (!stands && is_own_memory()) {
        let_go(fd);
        Held name_only;
        name_only.kind = HeldKind::name_only;
        guest.held.replace(fd, {}, name_only);
    }
    return error;
}

// Binds first. `when_full` is what the kernel's own choice would say.
int bind_and_connect(int fd, const SocketFacts& facts, const Address& local, const Address& remote,
                     CallRecord& record, int when_full) {
    PortGiver giver(fd, facts, local, record);
    giver.exclude(remote.port());
    const int error = giver.give_if_unbound();
    if (error != 0 && error != PortGiver::kStepAside) {
        return error == EADDRINUSE ? when_full : error;
    }
    return connect_by_program(fd, remote.data(), remote.size());
}

int connect_tcp(int fd, const SocketFacts& facts, const Address& local, const Address& remote,
                CallRecord& record) {
    if (guest.options().can_narrow == 0) {
        return bind_and_connect(fd, facts, local, remote, record, EADDRNOTAVAIL);
    }
    ConnectionMaker maker(fd, facts, local, remote, record);
    const int error = maker.connect();
    return error == PortGiver::kStepAside ? connect_by_program(fd, remote.data(), remote.size())
                                          : error;
}

// A socket without a port, as far as is known.
int connect_first(int fd, const sockaddr* address, socklen_t size, const Address& remote) {
    const bool has_name_only = guest.held.get(fd).kind == HeldKind::name_only;
    const auto facts = facts_of(fd);
    const auto local = facts ? local_address_of(fd, *facts) : std::nullopt;
    if (!local || remote.port() == 0 || local->family() != remote.family()) {
        return connect_by_program(fd, address, size);
    }
    if (local->port() != 0 && !has_name_only) {
        note_seen(fd);
        return connect_by_program(fd, address, size);
    }
    CallRecord record(Call::connect);
    const int error = facts->protocol == Protocol::udp
                          ? bind_and_connect(fd, *facts, *local, remote, record, EAGAIN)
                          : connect_tcp(fd, *facts, *local, remote, record);
    const bool is_done = error == 0 || error == EINPROGRESS || error == EINTR;
    record.finish(is_done ? 0 : error);
    return error;
}

int connect_from_program(int fd, const sockaddr* address, socklen_t size) {
    const bool has_family = address != nullptr && size >= sizeof(sa_family_t);
    if (has_family && address->sa_family == AF_UNSPEC) {
        return disconnect(fd, address, size);
    }
    const auto remote = read_address(address, size);
    switch (remote ? guest.held.get(fd).kind : HeldKind::seen) {
        case HeldKind::nothing:
        case HeldKind::fresh:
        case HeldKind::name_only:
            return connect_first(fd, address, size, *remote);
        case HeldKind::connection:
            return connect_again(fd, address, size);
        default:
            return connect_by_program(fd, address, size);
    }
}

}  // namespace

BERTH_INTERPOSED int connect(int fd, const sockaddr* address, socklen_t size) {
    if (!guest.covers(fd)) {
        return next_calls.connect(fd, address, size);
    }
    const KeptErrno kept;
    return kept.answer(connect_from_program(fd, address, size));
}

}  // namespace berth::internal
