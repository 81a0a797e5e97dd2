// SPDX-License-Identifier: Apache-2.0
// How TCP moves data: as much as the peer's window allows, acknowledged segment by segment.
#include "src/engine/simulation/kernel.h"
#include "src/engine/simulation/tcp_socket.h"

#include <algorithm>

namespace berth::internal::simulated {

Segment TcpSocket::make_segment() const {
    Segment segment;
    segment.source = local_;
    segment.destination = remote_;
    segment.from_id = id_;
    segment.to_id = peer_id_;
    segment.is_ack = true;
    segment.acknowledges_fin = has_seen_fin_;
    segment.received_count = received_count_;
    segment.window_end = window_end_;
    return segment;
}

void TcpSocket::transmit(Segment segment) {
    last_arrival_ = kernel_.tcp.send(std::move(segment), last_arrival_);
}

void TcpSocket::acknowledge() {
    update_window_end();
    transmit(make_segment());
}

void TcpSocket::update_window_end() {
    const std::size_t used = std::min(received_.size(), receive_capacity());
    window_end_ = std::max(window_end_, received_count_ + receive_capacity() - used);
}

void TcpSocket::open_window() {
    // Worth a segment when it lets the peer send a whole one, or half of what there is room for.
    const std::uint64_t before = window_end_;
    const std::size_t worth = std::min(kernel_.options.segment_size, receive_capacity() / 2);
    const bool may_receive = state_ == TcpState::established || state_ == TcpState::fin_wait1 ||
                             state_ == TcpState::fin_wait2;
    update_window_end();
    if (may_receive && window_end_ - before >= worth) {
        transmit(make_segment());
    } else {
        window_end_ = before;
    }
}

void TcpSocket::push() {
    while (!unsent_.is_empty() && sent_count_ < peer_window_end_) {
        const std::size_t size =
            std::min({kernel_.options.segment_size, unsent_.size(),
                      static_cast<std::size_t>(peer_window_end_ - sent_count_)});
        Segment segment = make_segment();
        const std::span<const std::byte> bytes = unsent_.front(size);
        segment.data.assign(bytes.begin(), bytes.end());
        unsent_.drop(size);
        sent_count_ += size;
        transmit(std::move(segment));
    }
    if (is_fin_wanted_ && !is_fin_sent_ && unsent_.is_empty()) {
        is_fin_sent_ = true;
        Segment segment = make_segment();
        segment.is_fin = true;
        transmit(std::move(segment));
    }
}

void TcpSocket::on_acknowledgement(const Segment& segment) {
    acknowledged_count_ = std::max(acknowledged_count_, segment.received_count);
    peer_window_end_ = std::max(peer_window_end_, segment.window_end);
    push();
    if (segment.acknowledges_fin && is_fin_sent_) {
        on_fin_acknowledged();
    }
    if (wants_space_ && is_writable()) {
        wants_space_ = false;
        wake(kWakeWritable);
    }
}

void TcpSocket::on_fin_acknowledged() {
    switch (state_) {
        case TcpState::fin_wait1:
            state_ = TcpState::fin_wait2;
            shut_ |= kShutWrite;
            if (is_orphan_) {
                wait_as_orphan();
            }
            return wake(0);
        case TcpState::closing:
            return end_connection(true);
        case TcpState::last_ack:
            return end_connection(false);
        default:
            return;
    }
}

void TcpSocket::on_data(const Segment& segment) {
    // A side that is shut for reading goes on taking data, but not once it has sent its FIN.
    if (is_shut(kShutRead) && !can_send()) {
        send_reset();
        error_ = ECONNRESET;
        end_connection(false);
        return;
    }
    received_.append(segment.data);
    received_count_ += segment.data.size();
    acknowledge();
    wake(kWakeReadable);
}

void TcpSocket::on_fin() {
    has_seen_fin_ = true;
    shut_ |= kShutRead;
    acknowledge();
    switch (state_) {
        case TcpState::established:
            state_ = TcpState::close_wait;
            break;
        case TcpState::fin_wait1:
            state_ = TcpState::closing;
            break;
        case TcpState::fin_wait2:
            return end_connection(true);
        default:
            break;
    }
    wake(0);
}

}  // namespace berth::internal::simulated
