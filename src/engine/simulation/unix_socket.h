// SPDX-License-Identifier: Apache-2.0
#pragma once

// An AF_UNIX socket. There is no way between the two sides: what is sent lies in the receiver's
// queue at once, and counts against the sender's buffer until it is read.
//
// Source: net/unix/af_unix.c of Linux 6.x.

#include "src/engine/simulation/byte_queue.h"
#include "src/engine/simulation/socket.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace berth::internal::simulated {

class UnixSocket final : public Socket {
public:
    /// SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
    UnixSocket(Kernel& kernel, int type);
    /// As socketpair() does it.
    static void join(UnixSocket& first, UnixSocket& second);

    int bind(const sockaddr* address, socklen_t size) override;
    int connect(const sockaddr* address, socklen_t size) override;
    int listen(int backlog) override;
    Accepted accept() override;
    int shutdown(int how) override;
    ssize_t send(Outgoing& outgoing) override;
    ssize_t receive(Incoming& incoming) override;
    SocketName local_name() const override;
    std::optional<SocketName> peer_name() const override;
    bool is_listening() const override { return state_ == State::listening; }
    std::uint32_t poll() override;
    std::size_t unread_size() const override;
    std::size_t unsent_size() const override { return unread_by_peer_size_; }
    std::string describe() const override;

private:
    enum class State : std::uint8_t { closed, listening, established };

    struct Message {
        Bytes data;
        std::size_t read_size = 0;  // of a stream
        std::weak_ptr<UnixSocket> sender;
        std::shared_ptr<const std::string> from;
        MemoryCharge charge;
    };

    bool is_datagram() const noexcept { return kind_.type == SOCK_DGRAM; }
    bool is_full() const noexcept { return queue_.size() > queue_limit_; }
    bool is_writable() const noexcept;
    void on_close() override;

    std::shared_ptr<UnixSocket> self() {
        return std::static_pointer_cast<UnixSocket>(shared_from_this());
    }
    int find_other(const sockaddr* address, socklen_t size,
                   std::shared_ptr<UnixSocket>& other) const;
    int connect_to_listener(UnixSocket& listener);
    int connect_datagrams(const sockaddr* address, socklen_t size);
    void set_peer(const std::shared_ptr<UnixSocket>& peer);
    void leave_peer();
    /// The other end closes; `is_reset`: it had not read everything.
    void on_peer_close(bool is_reset);
    bool is_peer_of(const UnixSocket& other) const;
    bool waits_for_peer();
    /// Is to be woken when something has been read here.
    void let_wait(UnixSocket& sender);

    ssize_t send_stream(Outgoing& outgoing);
    ssize_t send_message(Outgoing& outgoing);
    int find_receiver(const Outgoing& outgoing, std::shared_ptr<UnixSocket>& receiver);
    void give_back_room();
    int message_error(std::size_t size);
    int lose_peer();
    bool has_room() const noexcept {
        return unread_by_peer_size_ < static_cast<std::size_t>(send_buffer_);
    }
    void hand_over(UnixSocket& receiver, Bytes data);
    ssize_t receive_stream(Incoming& incoming);
    ssize_t receive_message(Incoming& incoming);
    void drop_front();
    void on_read(std::size_t size);
    void clear_queue();

    State state_ = State::closed;
    // Shared with what it has sent: the receiver sees the name that it has by then.
    std::shared_ptr<std::string> name_ = std::make_shared<std::string>();
    std::weak_ptr<UnixSocket> peer_;
    bool has_peer_ = false;  // also one that has closed
    std::string peer_name_;

    std::deque<Message> queue_;
    std::size_t queue_limit_;              // messages that others may leave here
    std::size_t unread_by_peer_size_ = 0;  // with overheads
    std::vector<std::weak_ptr<UnixSocket>> waiting_senders_;
    std::deque<std::shared_ptr<UnixSocket>> pending_;  // of a listener: not accepted yet
    std::size_t pending_limit_ = 0;
};

}  // namespace berth::internal::simulated
