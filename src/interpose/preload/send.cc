// SPDX-License-Identifier: Apache-2.0
// A UDP socket that sends without having been bound gets its port here, before the kernel would
// search for one. Whether it has one is asked once for each descriptor.
#include "src/interpose/preload/interposed.h"
#include "src/interpose/preload/next_calls.h"
#include "src/interpose/preload/port_giver.h"

#include <cerrno>

namespace berth::internal {
namespace {

int give_port_for_send(int fd, const SocketFacts& facts, const Address& local,
                       std::uint16_t remote_port) noexcept {
    CallRecord record(Call::send);
    PortGiver giver(fd, facts, local, record);
    giver.exclude(remote_port);
    const int error = giver.give_if_unbound();
    if (error == PortGiver::kStepAside) {
        note_seen(fd);
    }
    const int reported = error == EADDRINUSE ? EAGAIN : error == PortGiver::kStepAside ? 0 : error;
    record.finish(reported);
    return reported;
}

bool has_port(int fd) noexcept {
    const HeldKind kind = guest.held.get(fd).kind;
    return kind != HeldKind::nothing && kind != HeldKind::fresh;
}

// 0: the datagram can be sent. Errno: no port is to be had.
int prepare(int fd, const void* to, socklen_t to_size) noexcept {
    const auto remote = read_address(static_cast<const sockaddr*>(to), to_size);
    const auto facts = remote ? facts_of(fd) : std::nullopt;
    if (!facts || facts->protocol != Protocol::udp) {
        return 0;
    }
    const auto local = local_address_of(fd, *facts);
    if (!local || local->port() != 0) {
        if (local) note_seen(fd);
        return 0;
    }
    return give_port_for_send(fd, *facts, *local, remote->port());
}

// True when the call must not go on; errno says why.
bool is_refused(int fd, const void* to, socklen_t to_size) noexcept {
    if (to == nullptr || !guest.covers(fd) || has_port(fd)) {
        return false;
    }
    const KeptErrno kept;
    return kept.answer(prepare(fd, to, to_size)) != 0;
}

}  // namespace

BERTH_INTERPOSED ssize_t sendto(int fd, const void* data, size_t size, int flags,
                                const sockaddr* to, socklen_t to_size) {
    return is_refused(fd, to, to_size) ? -1 : next_calls.sendto(fd, data, size, flags, to, to_size);
}

BERTH_INTERPOSED ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    const bool has_address = message != nullptr && message->msg_name != nullptr;
    return has_address && is_refused(fd, message->msg_name, message->msg_namelen)
               ? -1
               : next_calls.sendmsg(fd, message, flags);
}

BERTH_INTERPOSED int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    const msghdr* first = messages != nullptr && count > 0 ? &messages->msg_hdr : nullptr;
    return first != nullptr && is_refused(fd, first->msg_name, first->msg_namelen)
               ? -1
               : next_calls.sendmmsg(fd, messages, count, flags);
}

}  // namespace berth::internal
