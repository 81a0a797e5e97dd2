// SPDX-License-Identifier: Apache-2.0
#pragma once

// One end of a connection: sends and receives in all ways there are, waits for room, half-closes,
// cancels, throws operations away, closes and resets, inside completions and outside of them.

#include "tests/stress/tracked.h"

#include <berth/descriptor.h>
#include <berth/stream.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace berth::test::stress {

/// What tells the sockets of a scenario apart: the path, or the address without the port.
std::string name_of(const Endpoint& endpoint);

/// Finished ones go later, also those that are just completing.
template <class List>
void forget_finished(List& list) {
    std::erase_if(list, [](const auto& one) { return one->operation.is_free(); });
}

class StreamEnd final : public Actor {
public:
    /// Connects to `remote`, under a name of its own.
    StreamEnd(World& world, const Endpoint& remote);
    /// What was accepted, or made as one of a pair.
    StreamEnd(World& world, Stream stream, std::shared_ptr<Connection> connection, bool is_client);

    void act() override;
    void wind_down() override { close(); }
    /// Closes files and pipes.
    void check() override;

private:
    struct Send {
        Send(StreamEnd& end, Flow::Chunk& what);

        Flow::Chunk& chunk;
        std::vector<iovec> parts;
        Tracked<SendOperation> operation;
    };
    /// Receives take the bytes of the stream in the order they were submitted. One that is done at
    /// once may say so before an earlier one completes.
    struct Arrival {
        std::vector<std::byte> bytes;
        bool is_there = false;
        bool is_end = false;
    };
    struct LentReceive {
        explicit LentReceive(StreamEnd& end);

        std::shared_ptr<Arrival> arrival;
        Tracked<ReceiveLentOperation> operation;
    };
    struct OwnReceive {
        OwnReceive(StreamEnd& end, std::size_t size);

        std::shared_ptr<Arrival> arrival;
        std::vector<std::byte> buffer;
        std::vector<iovec> parts;
        Tracked<ReceiveOperation> operation;
    };
    struct FileSend {
        FileSend(StreamEnd& end, Flow::Chunk& what);

        Flow::Chunk& chunk;
        Descriptor file;
        Tracked<SendFileOperation> operation;
    };
    struct Pipe {
        explicit Pipe(World& world);
        bool is_open() const noexcept { return out.is_open() && in.is_open(); }

        Descriptor out;
        Descriptor in;
    };
    /// What was in the pipe goes to the peer.
    struct PipeSend {
        PipeSend(StreamEnd& end, Pipe filled, Flow::Chunk& what);

        Flow::Chunk& chunk;
        Pipe pipe;
        Tracked<SpliceOperation> operation;
    };
    struct PipeReceive {
        PipeReceive(StreamEnd& end, Pipe empty);
        std::vector<std::byte> read_pipe() const;

        std::shared_ptr<Arrival> arrival;
        Pipe pipe;
        Tracked<SpliceOperation> operation;
    };

    static constexpr std::size_t kMostPending = 4;
    static constexpr std::size_t kMostBytes = 400'000;

    void connect(const Endpoint& remote);
    void connected();
    void act_on_traffic();
    void send();
    void write();
    void send_file();
    void send_pipe();
    void receive_into_pipe();
    bool is_enough() noexcept { return out().handed_over_size > kMostBytes; }
    /// Bytes to send next.
    std::span<const std::byte> choose_bytes(std::size_t largest);
    void receive();
    void received(Arrival& arrival, std::span<const std::byte> bytes, int system_errno);
    void take_arrivals();
    std::shared_ptr<Arrival> await_arrival();
    void cancel_one();
    void throw_one_away();
    void wait_for_room();
    void shut_down();
    void break_it();
    void close();
    /// An end of the stream does not mean any more that all has come.
    void disturb() noexcept;
    void note_part(const Flow::Chunk& chunk) noexcept;
    void failed(int system_errno) noexcept;
    Flow& out() noexcept { return is_client_ ? connection_->forth : connection_->back; }
    Flow& in() noexcept { return is_client_ ? connection_->back : connection_->forth; }

    Stream stream_;
    std::shared_ptr<Connection> connection_;
    bool is_client_;
    bool is_connected_ = false;
    bool is_closed_ = false;
    bool is_shut_down_ = false;
    std::vector<Lent> kept_;
    std::deque<std::shared_ptr<Arrival>> arrivals_;
    std::vector<std::unique_ptr<Send>> sends_;
    std::vector<std::unique_ptr<LentReceive>> lent_receives_;
    std::vector<std::unique_ptr<OwnReceive>> own_receives_;
    std::vector<std::unique_ptr<FileSend>> file_sends_;
    std::vector<std::unique_ptr<PipeSend>> pipe_sends_;
    std::vector<std::unique_ptr<PipeReceive>> pipe_receives_;
    Tracked<ConnectOperation> connect_;
    Tracked<WaitOperation> room_;
    Tracked<CloseOperation> closing_;
};

}  // namespace berth::test::stress
