// SPDX-License-Identifier: Apache-2.0
// A listener and its backlog. A SYN that finds it full is dropped: the peer tries again, until its
// connect times out. Unlike the kernel, which may only notice at the last ACK, the simulation
// counts connections that are half open as well.
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/tcp_socket.h"

#include <algorithm>
#include <utility>

namespace berth::internal::simulated {

int TcpSocket::listen(int backlog) {
    if (call_state_ != CallState::unconnected || (state_ != TcpState::closed && !is_listening())) {
        return -EINVAL;
    }
    const auto most = static_cast<unsigned>(kernel_.options.max_backlog);
    const std::size_t limit = std::min(static_cast<unsigned>(backlog), most);
    if (is_listening()) {
        backlog_->limit = limit;
        return 0;
    }
    if (!has_port()) {
        if (const int error = choose_port(); error != 0) {
            return error;
        }
    } else if (registry().has_conflict(local_.port(), claim_, false)) {
        return -EADDRINUSE;
    }
    backlog_ = std::make_shared<Backlog>();
    backlog_->listener = this;
    backlog_->limit = limit;
    claim_.is_listening = true;
    state_ = TcpState::listening;
    return 0;
}

Accepted TcpSocket::accept() {
    if (!is_listening()) {
        return {nullptr, -EINVAL};
    }
    if (backlog_->ready.empty()) {
        return {nullptr, -EAGAIN};
    }
    std::shared_ptr<TcpSocket> child = std::move(backlog_->ready.front());
    backlog_->ready.pop_front();
    child->call_state_ = CallState::connected;
    // Also of one that a reset has closed meanwhile.
    const SocketName peer = name_of(child->remote_, family());
    return {std::move(child), 0, peer};
}

void TcpSocket::on_request(const Segment& segment) {
    if (!backlog_->is_full()) {
        ++backlog_->half_open_count;
        make_child(*this, segment)->send_handshake();
    }
}

std::shared_ptr<TcpSocket> TcpSocket::make_child(TcpSocket& listener, const Segment& request) {
    auto child = std::make_shared<TcpSocket>(listener.kernel_, listener.family());
    child->copy_name_options(listener);
    child->is_host_named_ = listener.is_host_named_;
    child->set_local_host(request.destination);
    child->claim_port(request.destination.port(), false);
    child->remote_ = request.source;
    child->peer_id_ = request.from_id;
    child->peer_window_end_ = request.window_end;
    child->state_ = TcpState::syn_received;
    child->is_half_open_ = true;
    child->shut_ = listener.shut_;
    child->parent_backlog_ = listener.backlog_;
    listener.kernel_.tcp.add(child);
    return child;
}

bool TcpSocket::join_backlog() {
    const std::shared_ptr<Backlog> backlog = parent_backlog_.lock();
    if (backlog == nullptr) {
        return false;
    }
    --backlog->half_open_count;
    is_half_open_ = false;
    backlog->ready.push_back(std::static_pointer_cast<TcpSocket>(shared_from_this()));
    // The child is readable and writable before anybody can know of it.
    state_ = TcpState::established;
    backlog->listener->wake(kWakeReadable);
    return true;
}

void TcpSocket::stop_listening() {
    const std::shared_ptr<Backlog> backlog = std::exchange(backlog_, nullptr);
    claim_.is_listening = false;
    state_ = TcpState::closed;
    for (const std::shared_ptr<TcpSocket>& child : backlog->ready) child->abandon();
    if (!is_port_named_ || is_orphan_) {
        release_port();
    }
}

}  // namespace berth::internal::simulated
