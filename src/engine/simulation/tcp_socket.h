// SPDX-License-Identifier: Apache-2.0
#pragma once

// A TCP socket with the kernel's states, errors and wake-ups.
//
//   closed ─connect─▶ syn_sent ─SYN+ACK─▶ established ─FIN─▶ close_wait ─shutdown─▶ last_ack ─┐
//     │ listen                  │ shutdown                                                │
//     ▼                         ▼                                                         ▼
//   listening ─SYN─▶ child: syn_received      fin_wait1 ─▶ fin_wait2 ─FIN─▶ (TIME_WAIT) ─▶ closed
//
// A socket whose descriptor is closed goes on as an orphan until the other side has everything.
//
// Source: net/ipv4/tcp.c, tcp_input.c, af_inet.c of Linux 6.x.

#include "src/engine/simulation/byte_queue.h"
#include "src/engine/simulation/internet_socket.h"
#include "src/engine/simulation/tcp_network.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace berth::internal::simulated {

enum class TcpState : std::uint8_t {
    closed,
    listening,
    syn_sent,
    syn_received,
    established,
    fin_wait1,
    fin_wait2,
    close_wait,
    closing,
    last_ack,
};

class TcpSocket final : public InternetSocket {
public:
    TcpSocket(Kernel& kernel, Family family);
    /// The peer's half of a connection to `listener`, which `request` asks for.
    static std::shared_ptr<TcpSocket> make_child(TcpSocket& listener, const Segment& request);

    int connect(const sockaddr* address, socklen_t size) override;
    int listen(int backlog) override;
    Accepted accept() override;
    int shutdown(int how) override;
    ssize_t send(Outgoing& outgoing) override;
    ssize_t receive(Incoming& incoming) override;
    std::optional<SocketName> peer_name() const override;
    /// A socket that connects is never called writable before it is, or has failed.
    std::uint32_t spurious_events() const override {
        return state_ == TcpState::syn_sent ? EPOLLIN : EPOLLIN | EPOLLOUT;
    }
    bool is_listening() const override { return state_ == TcpState::listening; }
    std::uint32_t poll() override;
    std::size_t unread_size() const override { return received_.size(); }
    std::size_t unsent_size() const override { return queued_size(); }
    bool is_connection() const override { return can_send(); }
    void break_connection(int error) override;
    std::string describe() const override;

    std::uint64_t id() const noexcept { return id_; }
    void on_segment(const Segment& segment);
    /// A SYN that knows no id of ours, for a pair of addresses that this socket has.
    void on_first_syn(const Segment& segment);
    /// A SYN for a listener.
    void on_request(const Segment& segment);
    void on_unreachable(const Segment& segment);

private:
    enum class CallState : std::uint8_t { unconnected, connecting, connected, disconnecting };
    struct Backlog {
        TcpSocket* listener = nullptr;
        std::size_t limit = 0;
        std::size_t half_open_count = 0;
        std::deque<std::shared_ptr<TcpSocket>> ready;

        bool is_full() const noexcept { return ready.size() + half_open_count > limit; }
    };

    bool is_unconnected() const override { return state_ == TcpState::closed; }
    std::optional<int> get_own_option(int level, int name) override;
    void on_close() override;

    // Connecting and closing.
    int start_connect(const sockaddr* address, socklen_t size);
    int choose_connection(const Address& remote);
    bool is_port_usable(std::uint16_t port, const Address& remote) const;
    void send_syn();
    void retry_syn();
    bool become_established();
    bool join_backlog();
    void wait_as_orphan();
    void send_handshake();
    void on_handshake(const Segment& segment);
    void disconnect();
    void start_closing();
    void send_reset();
    void end_connection(bool is_in_time_wait);
    void on_reset();
    void stop_listening();
    void abandon();

    // Data.
    bool can_send() const noexcept {
        return state_ == TcpState::established || state_ == TcpState::close_wait;
    }
    std::size_t send_capacity() const noexcept {
        return static_cast<std::size_t>(send_buffer_) / 2;
    }
    std::size_t receive_capacity() const noexcept {
        return static_cast<std::size_t>(receive_buffer_) / 2;
    }
    std::size_t queued_size() const noexcept {
        return unsent_.size() + static_cast<std::size_t>(sent_count_ - acknowledged_count_);
    }
    bool is_writable() const noexcept;
    Segment make_segment() const;
    void transmit(Segment segment);
    void acknowledge();
    void open_window();
    void update_window_end();
    void push();
    void on_acknowledgement(const Segment& segment);
    void on_fin_acknowledged();
    void on_data(const Segment& segment);
    void on_fin();
    ssize_t empty_answer();
    int send_error(int flags);

    std::uint64_t id_;
    std::uint64_t peer_id_ = 0;
    TcpState state_ = TcpState::closed;
    CallState call_state_ = CallState::unconnected;
    bool is_orphan_ = false;
    bool has_seen_fin_ = false;
    bool wants_space_ = false;  // somebody was told that there is none

    ByteQueue unsent_;
    std::uint64_t sent_count_ = 0;
    std::uint64_t acknowledged_count_ = 0;
    std::uint64_t peer_window_end_ = 0;
    bool is_fin_wanted_ = false;
    bool is_fin_sent_ = false;

    ByteQueue received_;
    std::uint64_t received_count_ = 0;
    std::uint64_t window_end_ = 0;  // never goes back

    Nanoseconds last_arrival_{0};  // of what was sent
    Nanoseconds connect_deadline_{0};
    Nanoseconds retry_interval_{0};
    VirtualClock::EventId timer_{};

    std::shared_ptr<Backlog> backlog_;         // of a listener
    bool is_half_open_ = false;                // a child that no ACK has come for
    std::weak_ptr<Backlog> parent_backlog_{};  // of such a child; gone with the listener
};

const char* to_string(TcpState state) noexcept;

}  // namespace berth::internal::simulated
