// SPDX-License-Identifier: Apache-2.0
#include <berth/listener.h>

#include "src/base/system_calls.h"
#include "src/net/socket_setup.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace berth {
namespace {

using internal::DescriptorKind;
using internal::Detach;
using internal::LoopState;
using internal::NewSocket;

Result<void> configure(NewSocket& socket, const Endpoint& local, const ListenOptions& options) {
    if (local.is_unix()) {
        return {};
    }
    Socket& internet = socket.internet;
    if (options.reuse_address) {
        BERTH_TRY(internet.set_reuse_address(true));
    }
    if (options.reuse_port) {
        BERTH_TRY(internet.set_reuse_port(true));
    }
    if (internet.family() == Family::ipv6) {
        BERTH_TRY(internet.set_v6_only(options.v6_only));
    }
    if (options.no_delay) {
        return internal::set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    }
    return {};
}

}  // namespace

Result<Listener> Listener::open(Loop& loop, const Endpoint& local, const ListenOptions& options) {
    LoopState& state = loop.state();
    NewSocket socket =
        BERTH_TRY(internal::open_socket(local, Protocol::tcp, state.socket_mode() != 0));
    BERTH_TRY(configure(socket, local, options));
    Port port = BERTH_TRY(internal::bind_socket(socket, local, state.options().tcp_ports));
    if (internal::calls().listen(socket.fd(), options.backlog) != 0) {
        return std::unexpected(Error::from_errno(errno, "listen", local.to_string()));
    }
    const internal::SlotHandle slot =
        BERTH_TRY(state.attach_own(socket.fd(), DescriptorKind::listener));
    Listener listener(&state, slot, socket.release().release(), local.is_unix());
    listener.port_ = std::move(port);
    return listener;
}

Result<Listener> Listener::adopt(Loop& loop, Descriptor socket) {
    constexpr const char* kWanted = "listening socket";
    const int listens = BERTH_TRY(internal::adopted_option(socket.get(), SO_ACCEPTCONN, kWanted));
    if (listens == 0) {
        return std::unexpected(Error(Errc::invalid_argument, "adopt", kWanted, 0,
                                     "the socket does not listen", "call listen() before"));
    }
    const int family = BERTH_TRY(internal::adopted_option(socket.get(), SO_DOMAIN, kWanted));
    LoopState& state = loop.state();
    const internal::SlotHandle slot =
        BERTH_TRY(state.attach(socket.get(), DescriptorKind::listener));
    return Listener(&state, slot, socket.release(), family == AF_UNIX);
}

void Listener::take_over(Listener& other) noexcept {
    loop_ = other.loop_;
    slot_ = std::exchange(other.slot_, {});
    fd_ = std::exchange(other.fd_, -1);
    is_unix_ = other.is_unix_;
    port_ = std::move(other.port_);
}

Listener& Listener::operator=(Listener&& other) noexcept {
    if (this != &other) {
        close();
        take_over(other);
    }
    return *this;
}

Result<Endpoint> Listener::local_endpoint() const { return internal::local_endpoint_of(fd_); }

Result<Stream> Listener::take(int accepted) noexcept {
    Descriptor socket(accepted);
    const internal::SlotHandle slot =
        BERTH_TRY(loop_->attach(accepted, internal::stream_kind(is_unix_)));
    return Stream(loop_, slot, socket.release());
}

void Listener::close() noexcept {
    if (slot_.is_valid()) {
        loop_->detach(std::exchange(slot_, {}), Detach::close);
        fd_ = -1;
        port_.release();
    }
}

Result<Stream> AcceptAwaiter::await_resume() noexcept {
    if (has_failed()) {
        return std::unexpected(error());
    }
    return listener_.take(accepted_one_);
}

}  // namespace berth
