// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/tcp_socket.h"

#include "src/engine/simulation/kernel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace berth::internal::simulated {

TcpSocket::TcpSocket(Kernel& kernel, Family family)
    : InternetSocket(kernel,
                     {family == Family::ipv4 ? AF_INET : AF_INET6, SOCK_STREAM, IPPROTO_TCP}),
      id_(kernel.tcp.next_id()),
      unsent_(kernel.memory),
      received_(kernel.memory) {}

int TcpSocket::shutdown(int how) {
    if (how < SHUT_RD || how > SHUT_RDWR) {
        return -EINVAL;
    }
    const unsigned sides = static_cast<unsigned>(how) + 1;
    if (call_state_ == CallState::connecting) {
        const bool has_failed = state_ == TcpState::syn_sent || state_ == TcpState::syn_received ||
                                state_ == TcpState::closed;
        call_state_ = has_failed ? CallState::disconnecting : CallState::connected;
    }
    const int answer = state_ == TcpState::closed ? -ENOTCONN : 0;
    if (state_ == TcpState::syn_sent || (is_listening() && (sides & kShutRead) != 0)) {
        disconnect();
        call_state_ = CallState::unconnected;
    } else if (!is_listening()) {
        shut_ |= sides;
        if ((sides & kShutWrite) != 0 && can_send()) {
            start_closing();
        }
    }
    wake(0);
    return answer;
}

ssize_t TcpSocket::send(Outgoing& outgoing) {
    if ((outgoing.flags & MSG_OOB) != 0) {
        return -EOPNOTSUPP;
    }
    if (const int error = send_error(outgoing.flags); error != 0) {
        return error;
    }
    const std::size_t asked = outgoing.data.remaining();
    const std::size_t queued = queued_size();
    const std::size_t space = send_capacity() - std::min(send_capacity(), queued);
    const std::size_t size = std::min(asked, space);
    // Both a refusal and a partial write promise a wake-up.
    wants_space_ = wants_space_ || size < asked;
    if (size == 0) {
        return asked == 0 ? 0 : -EAGAIN;
    }
    if (!kernel_.memory.has_room_for(size)) {
        return -ENOBUFS;
    }
    outgoing.data.copy(unsent_.extend(size));
    push();
    return static_cast<ssize_t>(size);
}

int TcpSocket::send_error(int flags) {
    if (!can_send() && error_ == 0 &&
        (state_ == TcpState::syn_sent || state_ == TcpState::syn_received)) {
        return -EAGAIN;
    }
    if (can_send() && error_ == 0 && !is_shut(kShutWrite)) {
        return 0;
    }
    const int error = take_error();
    return error != 0 && error != EPIPE ? -error : broken_pipe(flags);
}

ssize_t TcpSocket::receive(Incoming& incoming) {
    if (is_listening()) {
        return -ENOTCONN;
    }
    if ((incoming.flags & MSG_OOB) != 0) {
        return -EINVAL;
    }
    const std::size_t size = std::min(incoming.data.remaining(), received_.size());
    if (received_.is_empty()) {
        return empty_answer();
    }
    // MSG_TRUNC throws the bytes away instead of copying them.
    if ((incoming.flags & MSG_TRUNC) == 0) {
        incoming.data.put(received_.front(size));
    }
    if ((incoming.flags & MSG_PEEK) == 0) {
        received_.drop(size);
        open_window();
    }
    return static_cast<ssize_t>(size);
}

ssize_t TcpSocket::empty_answer() {
    if (has_seen_fin_) {
        return 0;
    }
    if (error_ != 0) {
        return -take_error();
    }
    if (is_shut(kShutRead)) {
        return 0;
    }
    return state_ == TcpState::closed ? -ENOTCONN : -EAGAIN;
}

std::optional<SocketName> TcpSocket::peer_name() const {
    return state_ == TcpState::syn_sent || is_listening() ? std::nullopt
                                                          : InternetSocket::peer_name();
}

std::uint32_t TcpSocket::poll() {
    if (is_listening()) {
        return backlog_->ready.empty() ? 0 : kReadable;
    }
    std::uint32_t events = error_ != 0 ? EPOLLERR : 0U;
    if (is_shut(kShutBoth) || state_ == TcpState::closed) {
        events |= EPOLLHUP;
    }
    if (is_shut(kShutRead)) {
        events |= kReadable | EPOLLRDHUP;
    }
    if (state_ == TcpState::syn_sent || state_ == TcpState::syn_received) {
        return events;
    }
    if (!received_.is_empty()) {
        events |= kReadable;
    }
    if (is_shut(kShutWrite) || is_writable()) {
        events |= kWritable;
    } else {
        wants_space_ = true;
    }
    return events;
}

bool TcpSocket::is_writable() const noexcept {
    // The kernel waits for a third of the buffer before it calls it writable again.
    const std::size_t queued = queued_size();
    return queued <= send_capacity() && send_capacity() - queued >= queued / 2;
}

std::optional<int> TcpSocket::get_own_option(int level, int name) {
    if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
        return static_cast<int>(kernel_.options.segment_size);
    }
    return InternetSocket::get_own_option(level, name);
}

std::string TcpSocket::describe() const {
    std::string text = describe_names() + ' ' + to_string(state_);
    if (!received_.is_empty()) {
        text += ", " + std::to_string(received_.size()) + " bytes unread";
    }
    if (queued_size() > 0) {
        text += ", " + std::to_string(queued_size()) + " bytes not acknowledged";
    }
    if (error_ != 0) {
        text += std::string(", error ") + ::strerrorname_np(error_);
    }
    return text;
}

const char* to_string(TcpState state) noexcept {
    static constexpr std::array kNames = {"closed",      "listening", "syn_sent",  "syn_received",
                                          "established", "fin_wait1", "fin_wait2", "close_wait",
                                          "closing",     "last_ack"};
    return kNames[static_cast<std::size_t>(state)];
}

}  // namespace berth::internal::simulated
