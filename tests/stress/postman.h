// SPDX-License-Identifier: Apache-2.0
#pragma once

// A datagram socket, over UDP or a unix path: sends to the others, to itself and to nobody, single
// and in batches. What arrives was sent, to this socket, whole unless it says otherwise, and once
// unless the weather doubles it.

#include "tests/stress/tracked.h"

#include <berth/datagram_socket.h>

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace berth::test::stress {

class Postman final : public Actor {
public:
    explicit Postman(World& world);

    void act() override;
    void wind_down() override;
    void check() override;

private:
    static constexpr std::size_t kMostPending = 3;
    static constexpr std::size_t kBatch = 5;

    /// What is written at the begin of each datagram that has room for it.
    struct Header {
        std::uint64_t sender;
        std::uint64_t letter;  // its place in letters_
    };
    struct Letter {
        std::vector<std::byte> bytes;
        Endpoint to;
        bool has_failed = false;
        unsigned arrived_count = 0;
    };
    struct Send {
        explicit Send(Postman& postman);

        std::vector<std::size_t> letters;
        std::vector<Datagram> batch;
        Tracked<SendToOperation> single;
        Tracked<SendBatchOperation> several;
        bool is_free() const noexcept { return single.is_free() && several.is_free(); }
    };
    struct Receive {
        explicit Receive(Postman& postman);

        std::array<std::vector<std::byte>, kBatch> buffers;
        std::array<Datagram, kBatch> batch;
        Tracked<ReceiveFromOperation> single;
        Tracked<ReceiveBatchOperation> several;
        bool is_free() const noexcept { return single.is_free() && several.is_free(); }
    };

    void open();
    std::size_t write_letter(const Endpoint& to);
    Endpoint any_address();
    void send();
    void receive();
    void cancel_one();
    void arrived(std::span<const std::byte> bytes, bool is_truncated, const Endpoint& from);
    void go_on();

    std::uint64_t number_;
    Endpoint here_;
    DatagramSocket socket_;
    bool is_closed_ = false;
    std::optional<Endpoint> peer_;  // it is connected
    std::deque<Letter> letters_;
    std::vector<std::unique_ptr<Send>> sends_;
    std::vector<std::unique_ptr<Receive>> receives_;
};

}  // namespace berth::test::stress
