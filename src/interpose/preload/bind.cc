// SPDX-License-Identifier: Apache-2.0
#include "src/base/kernel_constants.h"
#include "src/interpose/preload/interposed.h"
#include "src/interpose/preload/next_calls.h"
#include "src/interpose/preload/port_giver.h"

#include <cerrno>

namespace berth::internal {
namespace {

int bind_by_program(int fd, const sockaddr* address, socklen_t size) noexcept {
    return next_calls.bind(fd, address, size) == 0 ? 0 : errno;
}

// What it has got, nobody has looked at.
int bind_unknown(int fd, const sockaddr* address, socklen_t size) noexcept {
    const int error = bind_by_program(fd, address, size);
    if (error == 0 && guest.held.get(fd).kind == HeldKind::fresh) {
        guest.held.take(fd);
    }
    return error;
}

// The program leaves the choice to connect(), which then shares the port between destinations.
bool waits_for_connect(int fd, const SocketFacts& facts) noexcept {
    return facts.has(kMayWaitForPort) && has_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
}

int bind_without_port(int fd, const sockaddr* address, socklen_t size) noexcept {
    const int error = bind_by_program(fd, address, size);
    if (error == 0) {
        guest.held.add_flags(fd, kMayHaveAddress);
    }
    return error;
}

int bind_any(int fd, const sockaddr* address, socklen_t size, const Address& local) noexcept {
    forget_if_stale(fd);
    const auto facts = facts_of(fd);
    if (!facts) {
        return bind_unknown(fd, address, size);
    }
    if (waits_for_connect(fd, *facts)) {
        return bind_without_port(fd, address, size);
    }
    CallRecord record(Call::bind);
    PortGiver giver(fd, *facts, local, record);
    int error = giver.give();
    if (error == PortGiver::kStepAside) {
        error = bind_by_program(fd, address, size);
        if (const auto bound = local_address_of(fd); error == 0 && bound) {
            note_bound(fd, *facts, *bound);
            record.note_port(bound->port(), PortSource::kernel);
        }
    }
    record.finish(error);
    return error;
}

// --on-taken another: a port that somebody has is answered with one that is free.
int bind_another(int fd, const Address& local, CallRecord& record) noexcept {
    const auto facts = facts_of(fd);
    if (!facts) {
        return EADDRINUSE;
    }
    PortGiver giver(fd, *facts, local, record);
    const int error = giver.give();
    return error == PortGiver::kStepAside ? EADDRINUSE : error;
}

bool is_in_a_range(std::uint16_t port) noexcept {
    return guest.table(Protocol::udp).range().contains(port) ||
           guest.table(Protocol::tcp).range().contains(port);
}

// A port of the program's own choice: the kernel decides, and the table takes note.
int bind_exactly(int fd, const sockaddr* address, socklen_t size, const Address& local) noexcept {
    if (!is_in_a_range(local.port())) {
        return bind_unknown(fd, address, size);
    }
    CallRecord record(Call::bind);
    int error = bind_by_program(fd, address, size);
    if (error == 0) {
        if (const auto facts = facts_of(fd)) {
            record.note_protocol(facts->protocol);
            record.note_port(local.port(), PortSource::program);
            note_bound(fd, *facts, local);
        }
    } else if (error == EADDRINUSE && guest.options().takes_another != 0) {
        error = bind_another(fd, local, record);
    }
    record.finish(error);
    return error;
}

}  // namespace

BERTH_INTERPOSED int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
    if (!guest.covers(fd)) {
        return next_calls.bind(fd, address, size);
    }
    const KeptErrno kept;
    const auto local = read_address(address, size);
    if (!local) {
        return kept.answer(bind_unknown(fd, address, size));
    }
    return kept.answer(local->port() == 0 ? bind_any(fd, address, size, *local)
                                          : bind_exactly(fd, address, size, *local));
}

}  // namespace berth::internal
