// SPDX-License-Identifier: Apache-2.0
// How AF_UNIX sockets move data.
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/unix_socket.h"

#include <algorithm>
#include <utility>

namespace berth::internal::simulated {
namespace {

constexpr std::size_t kLongestPiece = 32'768;  // of a stream's data in one message
constexpr std::size_t kSparedOfBuffer = 32;    // no message is as long as the buffer

}  // namespace

ssize_t UnixSocket::send(Outgoing& outgoing) {
    if ((outgoing.flags & MSG_OOB) != 0 || !outgoing.control.empty()) {
        return -EOPNOTSUPP;
    }
    return kind_.type == SOCK_STREAM ? send_stream(outgoing) : send_message(outgoing);
}

ssize_t UnixSocket::send_stream(Outgoing& outgoing) {
    if (outgoing.to_size != 0) {
        return state_ == State::established ? -EISCONN : -EOPNOTSUPP;
    }
    if (!has_peer_) {
        return -ENOTCONN;
    }
    if (is_shut(kShutWrite)) {
        return broken_pipe(outgoing.flags);
    }
    const std::shared_ptr<UnixSocket> peer = peer_.lock();
    const auto half_buffer = static_cast<std::size_t>(send_buffer_) / 2;
    ssize_t sent = 0;
    while (outgoing.data.remaining() > 0) {
        const std::size_t size =
            std::min({outgoing.data.remaining(), half_buffer - 64, kLongestPiece});
        int error = 0;
        if (!has_room()) {
            error = -EAGAIN;
        } else if (peer == nullptr || peer->is_shut(kShutRead)) {
            error = broken_pipe(outgoing.flags);
            give_back_room();
        } else if (!kernel_.memory.has_room_for(size)) {
            error = -ENOBUFS;
        }
        if (error != 0) {
            return sent > 0 ? sent : error;
        }
        hand_over(*peer, outgoing.data.take(size));
        sent += static_cast<ssize_t>(size);
    }
    return sent;
}

ssize_t UnixSocket::send_message(Outgoing& outgoing) {
    if (!is_datagram() && (error_ != 0 || state_ != State::established)) {
        return error_ != 0 ? -take_error() : -ENOTCONN;
    }
    const std::size_t size = outgoing.data.remaining();
    if (const int error = message_error(size); error != 0) {
        return error;
    }
    std::shared_ptr<UnixSocket> receiver;
    if (const int error = find_receiver(outgoing, receiver); error != 0) {
        give_back_room();
        return error;
    }
    hand_over(*receiver, outgoing.data.take(size));
    return static_cast<ssize_t>(size);
}

int UnixSocket::find_receiver(const Outgoing& outgoing, std::shared_ptr<UnixSocket>& receiver) {
    if (is_datagram() && outgoing.to_size != 0) {
        if (const int error = find_other(outgoing.to, outgoing.to_size, receiver); error != 0) {
            return error;
        }
    } else if (!has_peer_) {
        return -ENOTCONN;
    } else {
        receiver = peer_.lock();
    }
    if (receiver == nullptr) {
        return lose_peer();
    }
    if (receiver->has_peer_ && !receiver->is_peer_of(*this)) {
        return -EPERM;
    }
    if (receiver->is_shut(kShutRead)) {
        return -EPIPE;
    }
    if (receiver.get() != this && !receiver->is_peer_of(*this) && receiver->is_full()) {
        if (is_peer_of(*receiver)) {
            receiver->let_wait(*this);
        }
        return -EAGAIN;
    }
    return 0;
}

// The kernel takes room for a message before it looks for the receiver. That it gives it back is
// an edge.
void UnixSocket::give_back_room() {
    if (is_writable()) {
        wake(kWakeWritable);
    }
}

int UnixSocket::message_error(std::size_t size) {
    if (size > static_cast<std::size_t>(send_buffer_) - kSparedOfBuffer) {
        return -EMSGSIZE;
    }
    if (error_ != 0) {
        return -take_error();
    }
    if (is_shut(kShutWrite)) {
        return -EPIPE;
    }
    if (!has_room()) {
        return -EAGAIN;
    }
    return kernel_.memory.has_room_for(size) ? 0 : -ENOBUFS;
}

int UnixSocket::lose_peer() {
    if (!is_datagram()) {
        return -EPIPE;
    }
    leave_peer();
    return -ECONNREFUSED;
}

void UnixSocket::hand_over(UnixSocket& receiver, Bytes data) {
    const std::size_t size = data.size();
    unread_by_peer_size_ += size + kMessageOverhead;
    receiver.queue_.push_back(
        {std::move(data), 0, self(), name_, MemoryCharge(kernel_.memory, size)});
    receiver.wake(kWakeReadable);
}

std::size_t UnixSocket::unread_size() const {
    if (is_datagram()) {
        return queue_.empty() ? 0 : queue_.front().data.size();
    }
    std::size_t size = 0;
    for (const Message& message : queue_) size += message.data.size() - message.read_size;
    return size;
}

ssize_t UnixSocket::receive(Incoming& incoming) {
    return kind_.type == SOCK_STREAM ? receive_stream(incoming) : receive_message(incoming);
}

ssize_t UnixSocket::receive_stream(Incoming& incoming) {
    if (state_ != State::established) {
        return -EINVAL;
    }
    if ((incoming.flags & MSG_OOB) != 0) {
        return -EOPNOTSUPP;
    }
    if (queue_.empty()) {
        if (error_ != 0) {
            return -take_error();
        }
        return is_shut(kShutRead) ? 0 : -EAGAIN;
    }
    if (!queue_.front().from->empty()) {
        incoming.from = unix_name_of(*queue_.front().from);
    }
    const bool is_peek = (incoming.flags & MSG_PEEK) != 0;
    std::size_t total = 0;
    for (std::size_t index = 0; index < queue_.size() && incoming.data.remaining() > 0;) {
        Message& message = queue_[index];
        const std::size_t count =
            incoming.data.put(std::span(message.data).subspan(message.read_size));
        total += count;
        if (is_peek) {
            ++index;
            continue;
        }
        message.read_size += count;
        if (message.read_size == message.data.size()) {
            drop_front();
        }
    }
    return static_cast<ssize_t>(total);
}

ssize_t UnixSocket::receive_message(Incoming& incoming) {
    if (!is_datagram() && state_ != State::established) {
        return -ENOTCONN;
    }
    if ((incoming.flags & MSG_OOB) != 0) {
        return -EOPNOTSUPP;
    }
    if (error_ != 0) {
        return -take_error();
    }
    if (queue_.empty()) {
        return !is_datagram() && is_shut(kShutRead) ? 0 : -EAGAIN;
    }
    const Message& message = queue_.front();
    const std::size_t full = message.data.size();
    const std::size_t copied = incoming.data.put(message.data);
    if (!message.from->empty()) {
        incoming.from = unix_name_of(*message.from);
    }
    if (copied < full) {
        incoming.message_flags |= MSG_TRUNC;
    }
    if ((incoming.flags & MSG_PEEK) == 0) {
        drop_front();
    }
    return static_cast<ssize_t>((incoming.flags & MSG_TRUNC) != 0 ? full : copied);
}

void UnixSocket::drop_front() {
    const std::shared_ptr<UnixSocket> sender = queue_.front().sender.lock();
    const std::size_t size = queue_.front().data.size();
    queue_.pop_front();
    for (const auto& waiting : std::exchange(waiting_senders_, {})) {
        if (const auto alive = waiting.lock()) {
            alive->wake(kWakeWritable);
        }
    }
    if (sender != nullptr) {
        sender->on_read(size);
    }
}

void UnixSocket::on_read(std::size_t size) {
    unread_by_peer_size_ -= size + kMessageOverhead;
    give_back_room();
}

void UnixSocket::clear_queue() {
    while (!queue_.empty()) drop_front();
}

}  // namespace berth::internal::simulated
