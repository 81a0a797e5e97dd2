// SPDX-License-Identifier: Apache-2.0
#pragma once

// A UDP socket. Datagrams travel on their own, each at its own mercy; what nobody receives comes
// back as a port unreachable, which only a connected socket hears of, with its next call.
//
// Source: net/ipv4/udp.c, datagram.c of Linux 6.x.

#include "src/engine/simulation/byte_queue.h"
#include "src/engine/simulation/internet_socket.h"
#include "src/engine/simulation/virtual_clock.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace berth::internal::simulated {

struct Datagram {
    Address source;
    Address destination;
    Bytes data;
    std::size_t segment_size = 0;  // of the datagrams that this one stands for; 0: itself
};

class UdpSocket final : public InternetSocket {
public:
    UdpSocket(Kernel& kernel, Family family);

    int connect(const sockaddr* address, socklen_t size) override;
    int shutdown(int how) override;
    ssize_t send(Outgoing& outgoing) override;
    ssize_t receive(Incoming& incoming) override;
    std::uint32_t poll() override;
    std::size_t unread_size() const override {
        return queue_.empty() ? 0 : queue_.front().datagram.data.size();
    }
    std::size_t unsent_size() const override { return under_way_size_; }
    std::string describe() const override;

private:
    struct Received {
        Datagram datagram;
        MemoryCharge charge;
    };

    bool is_unconnected() const override { return remote_.port() == 0; }
    std::optional<int> get_own_option(int level, int name) override;
    std::optional<int> set_own_option(int level, int name, int value) override;
    void on_close() override;

    int ensure_port();
    void disconnect();
    int read_udp_destination(const sockaddr* to, socklen_t size, Address& destination) const;
    int choose_destination(const Outgoing& outgoing, Address& destination) const;
    int send_error(std::size_t size, const Address& destination);
    int segment_size_of(const Outgoing& outgoing, std::size_t& segment_size) const;

    // The way of a datagram.
    void dispatch(const Datagram& datagram);
    void post(const Datagram& datagram);
    void post_once(const Datagram& datagram, Nanoseconds hold);
    void on_sent(std::size_t charged);
    bool arrive(const Datagram& datagram) const;
    void on_port_unreachable(const Address& destination);
    static UdpSocket* find_receiver(Kernel& kernel, const Datagram& datagram);
    int score(const Datagram& datagram) const;
    void take(const Datagram& datagram);
    void enqueue(Datagram datagram);

    std::deque<Received> queue_;
    std::size_t queued_size_ = 0;     // with overheads
    std::size_t under_way_size_ = 0;  // sent and not arrived, with overheads
    std::size_t segment_size_ = 0;    // UDP_SEGMENT
    bool takes_bundles_ = false;      // UDP_GRO
};

}  // namespace berth::internal::simulated
