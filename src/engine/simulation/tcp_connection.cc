// SPDX-License-Identifier: Apache-2.0
// How TCP connections begin and end.
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/tcp_socket.h"

#include <algorithm>
#include <cstring>

namespace berth::internal::simulated {

int TcpSocket::connect(const sockaddr* address, socklen_t size) {
    sa_family_t asked_family = AF_UNSPEC;
    if (size < sizeof(asked_family)) {
        return -EINVAL;
    }
    std::memcpy(&asked_family, address, sizeof(asked_family));
    if (asked_family == AF_UNSPEC) {
        disconnect();
        call_state_ = CallState::unconnected;
        return 0;
    }
    if (call_state_ == CallState::disconnecting) {
        return -EINVAL;
    }
    if (call_state_ == CallState::connected) {
        return -EISCONN;
    }
    int answer = -EALREADY;
    if (call_state_ == CallState::unconnected) {
        answer = state_ == TcpState::closed ? start_connect(address, size) : -EISCONN;
        if (answer != 0) {
            return answer;
        }
        call_state_ = CallState::connecting;
        answer = -EINPROGRESS;
    }
    if (state_ == TcpState::syn_sent || state_ == TcpState::syn_received) {
        return answer;
    }
    if (state_ == TcpState::closed) {
        const int error = take_error();
        call_state_ = CallState::unconnected;
        disconnect();
        return error != 0 ? -error : -ECONNABORTED;
    }
    call_state_ = CallState::connected;
    return 0;
}

int TcpSocket::start_connect(const sockaddr* address, socklen_t size) {
    Address remote;
    if (const int error = read_destination(address, size, remote); error != 0) {
        return error;
    }
    if (local_.is_wildcard()) {
        set_local_host(kernel_.routes.source_for(remote));
    }
    if (const int error = choose_connection(remote); error != 0) {
        forget_chosen_name();
        return error;
    }
    remote_ = remote;
    error_ = 0;
    has_seen_fin_ = false;
    is_fin_wanted_ = is_fin_sent_ = false;
    id_ = kernel_.tcp.next_id();
    sent_count_ = acknowledged_count_ = received_count_ = window_end_ = peer_window_end_ = 0;
    state_ = TcpState::syn_sent;
    kernel_.tcp.add(std::static_pointer_cast<TcpSocket>(shared_from_this()));
    connect_deadline_ = kernel_.clock.now() + kernel_.options.connect_timeout;
    retry_interval_ = kernel_.options.first_connect_retry;
    send_syn();
    return 0;
}

int TcpSocket::choose_connection(const Address& remote) {
    if (has_port()) {
        return kernel_.tcp.is_free(local_, remote) ? 0 : -EADDRNOTAVAIL;
    }
    const std::uint32_t count = range_size();
    const auto start = static_cast<std::uint32_t>(kernel_.random.below(std::max(count, 1U)));
    for (std::uint32_t index = 0; index < count; ++index) {
        const std::uint16_t port = range_port(start, index);
        if (is_port_usable(port, remote)) {
            claim_port(port, true);
            return 0;
        }
    }
    return -EADDRNOTAVAIL;
}

bool TcpSocket::is_port_usable(std::uint16_t port, const Address& remote) const {
    return !registry().is_bound(port) && kernel_.tcp.is_free(local_.with_port(port), remote);
}

void TcpSocket::send_syn() {
    update_window_end();
    Segment segment = make_segment();
    segment.to_id = 0;
    segment.is_syn = true;
    segment.is_ack = false;
    transmit(std::move(segment));
    const Nanoseconds left = connect_deadline_ - kernel_.clock.now();
    timer_ = kernel_.clock.schedule(std::min(retry_interval_, left), [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            static_cast<TcpSocket&>(*self).retry_syn();
        }
    });
}

void TcpSocket::retry_syn() {
    if (kernel_.clock.now() >= connect_deadline_) {
        error_ = ETIMEDOUT;
        end_connection(false);
        return;
    }
    retry_interval_ *= 2;
    send_syn();
}

void TcpSocket::send_handshake() {
    update_window_end();
    Segment segment = make_segment();
    segment.is_syn = true;
    transmit(std::move(segment));
}

void TcpSocket::on_segment(const Segment& segment) {
    if (segment.is_reset) {
        return on_reset();
    }
    if (segment.is_syn) {
        return on_handshake(segment);
    }
    if (state_ == TcpState::syn_received && !become_established()) {
        return;
    }
    on_acknowledgement(segment);
    if (state_ != TcpState::closed && !segment.data.empty()) {
        on_data(segment);
    }
    if (state_ != TcpState::closed && segment.is_fin) {
        on_fin();
    }
}

void TcpSocket::on_handshake(const Segment& segment) {
    if (state_ == TcpState::syn_sent || state_ == TcpState::syn_received) {
        peer_id_ = segment.from_id;
        peer_window_end_ = segment.window_end;
        become_established();
    }
    acknowledge();
}

void TcpSocket::on_first_syn(const Segment& segment) {
    if (state_ == TcpState::syn_sent) {
        // Both sides connect at the same time, or a socket to itself.
        peer_id_ = segment.from_id;
        peer_window_end_ = segment.window_end;
        kernel_.clock.cancel(timer_);
        state_ = TcpState::syn_received;
        send_handshake();
    } else if (peer_id_ != segment.from_id) {
        // The other side knows nothing of this connection any more. The kernel finds that out by
        // a question that a reset answers; the SYN comes again after it.
        on_reset();
    } else if (state_ == TcpState::syn_received) {
        send_handshake();
    }
}

void TcpSocket::on_unreachable(const Segment& segment) {
    if (state_ == TcpState::syn_sent && segment.from_id == id_) {
        error_ = EHOSTUNREACH;
        end_connection(false);
    }
}

bool TcpSocket::become_established() {
    kernel_.clock.cancel(timer_);
    const bool is_passive = state_ == TcpState::syn_received;
    if (is_half_open_ && !join_backlog()) {
        abandon();
        return false;
    }
    if (state_ == TcpState::syn_sent || state_ == TcpState::syn_received) {
        state_ = TcpState::established;
    }
    wake(0);
    // It may have been shut for writing before, or by its listener, which hands that down.
    if (is_passive && is_shut(kShutWrite)) {
        start_closing();
    }
    return true;
}

void TcpSocket::disconnect() {
    const TcpState before = state_;
    if (before == TcpState::listening) {
        stop_listening();
    } else if (before == TcpState::syn_sent) {
        error_ = ECONNRESET;
    } else if (before != TcpState::closed &&
               (!unsent_.is_empty() ||
                (before != TcpState::closing && before != TcpState::last_ack))) {
        send_reset();
        error_ = ECONNRESET;
    }
    // A socket that was closed already keeps even the port that bind(0) has chosen.
    if (before != TcpState::closed) {
        end_connection(false);
    }
    received_.clear();
    forget_chosen_name();
    shut_ = 0;
    has_seen_fin_ = false;
    wake(EPOLLERR);
}

void TcpSocket::start_closing() {
    switch (state_) {
        case TcpState::syn_sent:
            return end_connection(false);
        case TcpState::syn_received:
        case TcpState::established:
            state_ = TcpState::fin_wait1;
            break;
        case TcpState::close_wait:
            state_ = TcpState::last_ack;
            break;
        default:
            return;
    }
    is_fin_wanted_ = true;
    push();
}

void TcpSocket::send_reset() {
    Segment segment = make_segment();
    segment.is_reset = true;
    transmit(std::move(segment));
}

void TcpSocket::on_reset() {
    switch (state_) {
        case TcpState::syn_sent:
            error_ = ECONNREFUSED;
            break;
        case TcpState::close_wait:
            error_ = EPIPE;
            break;
        default:
            error_ = ECONNRESET;
            break;
    }
    end_connection(false);
}

void TcpSocket::break_connection(int error) {
    if (state_ == TcpState::closed || is_listening()) {
        return;
    }
    send_reset();
    error_ = error;
    end_connection(false);
}

void TcpSocket::end_connection(bool is_in_time_wait) {
    const std::shared_ptr<File> self = shared_from_this();
    kernel_.clock.cancel(timer_);
    unsent_.clear();
    acknowledged_count_ = sent_count_;
    if (const auto backlog = parent_backlog_.lock(); is_half_open_ && backlog != nullptr) {
        --backlog->half_open_count;
    }
    is_half_open_ = false;
    if (is_in_time_wait) {
        kernel_.tcp.add_time_wait(*this, claim_);
    }
    kernel_.tcp.remove(*this);
    state_ = TcpState::closed;
    shut_ = kShutBoth;
    // A port that connect() or bind(0) has chosen goes with the connection.
    if (!is_port_named_ || is_orphan_) {
        release_port();
    }
    wake(0);
}

void TcpSocket::abandon() {
    is_orphan_ = true;
    if (state_ != TcpState::closed) {
        send_reset();
        end_connection(false);
    }
}

void TcpSocket::on_close() {
    is_orphan_ = true;
    if (is_listening()) {
        stop_listening();
    }
    if (state_ == TcpState::closed) {
        return release_port();
    }
    shut_ = kShutBoth;
    const bool is_aborted = linger_.l_onoff != 0 && linger_.l_linger == 0;
    if (!received_.is_empty() || (is_aborted && state_ != TcpState::syn_sent)) {
        return abandon();
    }
    start_closing();
    if (state_ == TcpState::fin_wait2) {
        wait_as_orphan();
    }
}

void TcpSocket::wait_as_orphan() {
    timer_ = kernel_.clock.schedule(kernel_.options.orphan_timeout, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            static_cast<TcpSocket&>(*self).end_connection(false);
        }
    });
}

}  // namespace berth::internal::simulated
