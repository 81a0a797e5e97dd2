// SPDX-License-Identifier: Apache-2.0
// One datagram from several pieces of memory, and several from one send, in both forms.
#include "tests/conformance/engines.h"

#include <berth/datagram_socket.h>
#include <berth/scope.h>
#include <berth/task.h>

#include <array>
#include <string>
#include <vector>

namespace berth::test {
namespace {

constexpr std::uint16_t kSegmentSize = 1'000;

iovec part_of(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

class DatagramPiecesTest : public EngineTest {
protected:
    void SetUp() override {
        EngineTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        const Endpoint any = Address::loopback(Family::ipv4);
        receiver = DatagramSocket::open(loop(), any, {.joins_segments = true}).value();
        sender = DatagramSocket::open(loop(), any).value();
        connected = DatagramSocket::open_to(loop(), target()).value();
    }
    void TearDown() override {
        for (DatagramSocket* const socket : {&receiver, &sender, &connected}) {
            socket->close();
        }
        EngineTest::TearDown();
    }

    Endpoint target() const { return receiver.local_endpoint().value(); }

    void wait_for(const Watched<SendToOperation>& send, unsigned completion_count) {
        run_until([&] { return send.completion_count == completion_count; });
        ASSERT_FALSE(send.has_failed()) << send.error().message();
    }
    /// The next one; not joined with others.
    std::string receive_one() {
        std::array<std::byte, 100> buffer;
        Watched<ReceiveFromOperation> receive;
        receiver.receive(receive, buffer);
        run_until([&] { return receive.completion_count == 1; });
        EXPECT_FALSE(receive.has_failed()) << receive.error().message();
        return text_of(std::span(buffer).first(receive.count()));
    }
    /// `size` bytes of datagrams that have been sent in segments.
    std::vector<std::byte> receive_segments(std::size_t size) {
        std::vector<std::byte> received;
        std::vector<std::byte> buffer(65'536);
        Watched<ReceiveFromOperation> receive;
        receive.then = [&] {
            ASSERT_FALSE(receive.has_failed()) << receive.error().message();
            EXPECT_TRUE(receive.count() <= kSegmentSize || receive.segment_size == kSegmentSize);
            const auto bytes = std::span(buffer).first(receive.count());
            received.insert(received.end(), bytes.begin(), bytes.end());
            if (received.size() < size) {
                receiver.receive(receive, buffer);
            }
        };
        receiver.receive(receive, buffer);
        run_until([&] { return received.size() >= size; });
        return received;
    }

    /// Runs a task to its end.
    void run(Task<void> task) {
        Scope scope;
        scope.spawn(std::move(task));
        run_until([&] { return scope.size() == 0; });
    }

    DatagramSocket receiver;
    DatagramSocket sender;
    DatagramSocket connected;  // to the receiver
};

TEST_P(DatagramPiecesTest, PiecesMakeOneDatagram) {
    const std::array parts = {part_of(bytes_of("one ")), part_of({}),
                              part_of(bytes_of("datagram"))};
    Watched<SendToOperation> send;
    sender.send(send, parts, target());
    wait_for(send, 1);
    EXPECT_EQ(send.count(), 12U);
    EXPECT_EQ(receive_one(), "one datagram");
    connected.send(send, parts);
    wait_for(send, 2);
    EXPECT_EQ(receive_one(), "one datagram");
}

TEST_P(DatagramPiecesTest, AnOperationForgetsItsPiecesAndItsBytes) {
    const std::array parts = {part_of(bytes_of("pieces"))};
    Watched<SendToOperation> send;
    connected.send(send, parts);
    wait_for(send, 1);
    connected.send(send, bytes_of("bytes"));
    wait_for(send, 2);
    connected.send(send, std::span<const iovec>());
    wait_for(send, 3);
    EXPECT_EQ(send.count(), 0U);
    EXPECT_EQ(receive_one(), "pieces");
    EXPECT_EQ(receive_one(), "bytes");
    EXPECT_EQ(receive_one(), "");
}

TEST_P(DatagramPiecesTest, PiecesAreCutIntoSegments) {
    const std::vector<std::byte> bytes = pattern(4'300);
    const std::array parts = {part_of(std::span(bytes).first(1'500)),
                              part_of(std::span(bytes).subspan(1'500))};
    Watched<SendToOperation> send;
    send.segment_size = kSegmentSize;
    sender.send(send, parts, target());
    wait_for(send, 1);
    EXPECT_EQ(receive_segments(bytes.size()), bytes);
}

/// What became of each send of a task.
class Outcomes {
public:
    void add(const Result<std::size_t>& sent) {
        EXPECT_TRUE(sent) << sent.error().message();
        sizes.push_back(sent.value_or(~std::size_t{0}));
    }

    std::vector<std::size_t> sizes;
};

Task<void> send_pieces(DatagramSocket& sender, DatagramSocket& connected, Endpoint target,
                       Outcomes& outcomes) {
    const std::array parts = {part_of(bytes_of("a")), part_of(bytes_of("b"))};
    outcomes.add(co_await connected.send(parts));
    outcomes.add(co_await sender.send_to(parts, target));
    outcomes.add(co_await connected.send(std::span<const iovec>()));
}

TEST_P(DatagramPiecesTest, TasksSendPiecesToo) {
    Outcomes outcomes;
    run(send_pieces(sender, connected, target(), outcomes));
    EXPECT_THAT(outcomes.sizes, testing::ElementsAre(2U, 2U, 0U));
    EXPECT_EQ(receive_one(), "ab");
    EXPECT_EQ(receive_one(), "ab");
    EXPECT_EQ(receive_one(), "");
}

Task<void> send_segments(DatagramSocket& sender, DatagramSocket& connected, Endpoint target,
                         std::span<const std::byte> bytes, Outcomes& outcomes) {
    const std::array parts = {part_of(bytes.first(1'500)), part_of(bytes.subspan(1'500))};
    outcomes.add(co_await connected.send(bytes, {}, kSegmentSize));
    outcomes.add(co_await connected.send(parts, {}, kSegmentSize));
    outcomes.add(co_await sender.send_to(bytes, target, {}, kSegmentSize));
    outcomes.add(co_await sender.send_to(parts, target, {}, kSegmentSize));
}

TEST_P(DatagramPiecesTest, TasksSendInSegmentsToo) {
    const std::vector<std::byte> bytes = pattern(2'300);
    Outcomes outcomes;
    run(send_segments(sender, connected, target(), bytes, outcomes));
    EXPECT_THAT(outcomes.sizes, testing::ElementsAre(2'300U, 2'300U, 2'300U, 2'300U));
    const std::vector<std::byte> received = receive_segments(4 * bytes.size());
    ASSERT_EQ(received.size(), 4 * bytes.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
        ASSERT_EQ(received[i], bytes[i % bytes.size()]) << i;
    }
}

BERTH_OVER_EVERY_ENGINE_OF(DatagramPiecesTest);

}  // namespace
}  // namespace berth::test
