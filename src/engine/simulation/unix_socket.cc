// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulation/unix_socket.h"

#include "src/engine/simulation/kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace berth::internal::simulated {
namespace {

constexpr std::size_t kDatagramQueueLimit = 10;  // net.unix.max_dgram_qlen

}  // namespace

UnixSocket::UnixSocket(Kernel& kernel, int type)
    : Socket(kernel, {AF_UNIX, type, 0}), queue_limit_(kDatagramQueueLimit) {}

void UnixSocket::join(UnixSocket& first, UnixSocket& second) {
    first.set_peer(second.self());
    second.set_peer(first.self());
}

void UnixSocket::set_peer(const std::shared_ptr<UnixSocket>& peer) {
    peer_ = peer;
    has_peer_ = true;
    peer_name_ = *peer->name_;
    state_ = State::established;
}

void UnixSocket::leave_peer() {
    if (!has_peer_) {
        return;
    }
    const std::shared_ptr<UnixSocket> peer = peer_.lock();
    peer_.reset();
    has_peer_ = false;
    state_ = State::closed;
    // What came from the old peer is lost, and it shall know.
    if (!queue_.empty()) {
        clear_queue();
        if (peer != nullptr && peer->is_peer_of(*this)) {
            peer->error_ = ECONNRESET;
            peer->wake(EPOLLERR);
        }
    }
}

bool UnixSocket::is_peer_of(const UnixSocket& other) const { return peer_.lock().get() == &other; }

int UnixSocket::bind(const sockaddr* address, socklen_t size) {
    std::string name;
    if (const int error = read_unix_name(address, size, name); error != 0) {
        return error;
    }
    if (!name_->empty()) {
        return -EINVAL;
    }
    if (name.empty()) {
        name = kernel_.unix_names.make_name(kind_.type);
    }
    if (kernel_.unix_names.is_taken(name, kind_.type)) {
        return -EADDRINUSE;
    }
    *name_ = name;
    kernel_.unix_names.add(name, kind_.type, self());
    return 0;
}

int UnixSocket::find_other(const sockaddr* address, socklen_t size,
                           std::shared_ptr<UnixSocket>& other) const {
    std::string name;
    if (const int error = read_unix_name(address, size, name); error != 0) {
        return error;
    }
    if (name.empty()) {
        return -EINVAL;
    }
    other = kernel_.unix_names.find(name, kind_.type);
    if (other == nullptr) {
        const bool is_missing_file =
            !is_abstract(name) && !kernel_.unix_names.is_taken(name, kind_.type);
        return is_missing_file ? -ENOENT : -ECONNREFUSED;
    }
    return other->kind_.type == kind_.type ? 0 : -EPROTOTYPE;
}

int UnixSocket::connect(const sockaddr* address, socklen_t size) {
    if (is_datagram()) {
        return connect_datagrams(address, size);
    }
    std::shared_ptr<UnixSocket> other;
    if (const int error = find_other(address, size, other); error != 0) {
        return error;
    }
    return connect_to_listener(*other);
}

int UnixSocket::connect_to_listener(UnixSocket& listener) {
    if (!listener.is_listening() || listener.is_shut(kShutRead)) {
        return -ECONNREFUSED;
    }
    if (listener.pending_.size() > listener.pending_limit_) {
        return -EAGAIN;
    }
    if (state_ != State::closed) {
        return state_ == State::established ? -EISCONN : -EINVAL;
    }
    auto server = std::make_shared<UnixSocket>(kernel_, kind_.type);
    *server->name_ = *listener.name_;
    join(*this, *server);
    listener.pending_.push_back(std::move(server));
    listener.wake(kWakeReadable);
    return 0;
}

int UnixSocket::connect_datagrams(const sockaddr* address, socklen_t size) {
    sa_family_t family = AF_UNSPEC;
    if (size < sizeof(family)) {
        return -EINVAL;
    }
    std::memcpy(&family, address, sizeof(family));
    const bool had_peer = has_peer_;
    if (family == AF_UNSPEC) {
        leave_peer();
        if (had_peer) {
            wake(kWakeWritable);
        }
        return 0;
    }
    std::shared_ptr<UnixSocket> other;
    if (const int error = find_other(address, size, other); error != 0) {
        return error;
    }
    if (other->has_peer_ && !other->is_peer_of(*this)) {
        return -EPERM;
    }
    if (had_peer && !is_peer_of(*other)) {
        leave_peer();
    }
    set_peer(other);
    if (had_peer) {
        wake(kWakeWritable);
    }
    return 0;
}

int UnixSocket::listen(int backlog) {
    if (is_datagram()) {
        return -EOPNOTSUPP;
    }
    if (name_->empty() || state_ == State::established) {
        return -EINVAL;
    }
    const auto most = static_cast<unsigned>(kernel_.options.max_backlog);
    pending_limit_ = std::min(static_cast<unsigned>(backlog), most);
    state_ = State::listening;
    return 0;
}

Accepted UnixSocket::accept() {
    if (is_datagram()) {
        return {nullptr, -EOPNOTSUPP};
    }
    if (!is_listening()) {
        return {nullptr, -EINVAL};
    }
    if (pending_.empty()) {
        return {nullptr, -EAGAIN};
    }
    std::shared_ptr<UnixSocket> server = std::move(pending_.front());
    pending_.pop_front();
    const SocketName peer = server->peer_name().value_or(SocketName{});
    return {std::move(server), 0, peer};
}

int UnixSocket::shutdown(int how) {
    if (how < SHUT_RD || how > SHUT_RDWR) {
        return -EINVAL;
    }
    const unsigned sides = static_cast<unsigned>(how) + 1;
    shut_ |= sides;
    wake(0);
    const std::shared_ptr<UnixSocket> peer = peer_.lock();
    if (!is_datagram() && peer != nullptr) {
        peer->shut_ |= ((sides & kShutRead) != 0 ? kShutWrite : 0) |
                       ((sides & kShutWrite) != 0 ? kShutRead : 0);
        peer->wake(0);
    }
    return 0;
}

SocketName UnixSocket::local_name() const { return unix_name_of(*name_); }

std::optional<SocketName> UnixSocket::peer_name() const {
    if (!has_peer_) {
        return std::nullopt;
    }
    const std::shared_ptr<UnixSocket> peer = peer_.lock();
    return unix_name_of(peer != nullptr ? *peer->name_ : peer_name_);
}

bool UnixSocket::is_writable() const noexcept {
    return !is_listening() && 4 * unread_by_peer_size_ <= static_cast<std::size_t>(send_buffer_);
}

std::uint32_t UnixSocket::poll() {
    std::uint32_t events = error_ != 0 ? EPOLLERR : 0U;
    if (is_shut(kShutRead)) {
        events |= kReadable | EPOLLRDHUP;
    }
    if (is_shut(kShutBoth) || (!is_datagram() && state_ == State::closed)) {
        events |= EPOLLHUP;
    }
    if (!queue_.empty() || !pending_.empty()) {
        events |= kReadable;
    }
    if (is_writable() && !waits_for_peer()) {
        events |= kWritable | EPOLLWRBAND;
    }
    return events;
}

bool UnixSocket::waits_for_peer() {
    const std::shared_ptr<UnixSocket> peer = peer_.lock();
    if (!is_datagram() || peer == nullptr || peer->is_peer_of(*this) || !peer->is_full()) {
        return false;
    }
    peer->let_wait(*this);
    return true;
}

void UnixSocket::let_wait(UnixSocket& sender) {
    const bool is_waiting = std::ranges::any_of(
        waiting_senders_, [&](const auto& waiting) { return waiting.lock().get() == &sender; });
    if (!is_waiting) {
        waiting_senders_.push_back(sender.self());
    }
}

void UnixSocket::on_close() {
    if (!name_->empty() && kernel_.unix_names.find(*name_, kind_.type).get() == this) {
        kernel_.unix_names.release(*name_, kind_.type);
    }
    shut_ = kShutBoth;
    state_ = State::closed;
    const std::shared_ptr<UnixSocket> peer = peer_.lock();
    peer_.reset();
    has_peer_ = false;
    if (!is_datagram() && peer != nullptr) {
        peer->on_peer_close(!queue_.empty());
    }
    clear_queue();
    for (const std::shared_ptr<UnixSocket>& server : std::exchange(pending_, {})) {
        const std::shared_ptr<UnixSocket> client = server->peer_.lock();
        server->release();
        if (client != nullptr) {
            client->on_peer_close(true);
        }
    }
}

void UnixSocket::on_peer_close(bool is_reset) {
    shut_ = kShutBoth;
    if (is_reset) {
        error_ = ECONNRESET;
    }
    wake(0);
}

std::string UnixSocket::describe() const {
    std::string text = "unix ";
    text += is_abstract(*name_) ? '@' + name_->substr(1) : *name_;
    if (is_listening()) {
        text += " listening";
    } else if (has_peer_) {
        text += " connected";
    }
    if (!queue_.empty()) {
        text += ", " + std::to_string(queue_.size()) + " messages unread";
    }
    return text;
}

}  // namespace berth::internal::simulated
