// SPDX-License-Identifier: Apache-2.0

// Operations with room for nothing: they are over at once, and take nothing away from those that
// follow.

#include "tests/conformance/engines.h"

#include <berth/datagram_socket.h>

#include <array>

namespace berth::test {
namespace {

class NoRoomTest : public EngineTest {
protected:
    /// One turn of the loop, which does not wait, is enough for it.
    template <class Op>
    void expect_over_with_nothing(Watched<Op>& operation, unsigned completion_count = 1) {
        ASSERT_TRUE(loop().run_once().has_value());
        ASSERT_EQ(operation.completion_count, completion_count) << "it waits";
        EXPECT_FALSE(operation.has_failed()) << operation.error().message();
        EXPECT_EQ(operation.count(), 0U);
    }

    DatagramSocket open_at_loopback() {
        return DatagramSocket::open(loop(), Address::loopback(Family::ipv4)).value();
    }
    void send(DatagramSocket& from, std::string_view text, const DatagramSocket& to) {
        Watched<SendToOperation> send;
        from.send(send, bytes_of(text), *to.local_endpoint());
        run_until([&] { return send.completion_count == 1; });
        ASSERT_FALSE(send.has_failed()) << send.error().message();
    }
};

TEST_P(NoRoomTest, ReceiveFromAnIdleStream) {
    auto [client, server] = connect_pair();
    Watched<ReceiveOperation> receive;
    server.receive(receive, std::span<std::byte>());
    expect_over_with_nothing(receive);
    // Also where the stream is known to be empty.
    ASSERT_TRUE(client.write(bytes_of("x")).has_value());
    EXPECT_EQ(receive_exactly(server, 1).size(), 1U);
    server.receive(receive, std::span<std::byte>());
    expect_over_with_nothing(receive, 2);
    ASSERT_TRUE(client.write(bytes_of("still works")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 11)), "still works");
}

TEST_P(NoRoomTest, ReceiveBetweenOthers) {
    auto [client, server] = connect_pair();
    std::array<std::array<std::byte, 4>, 2> buffers{};
    Watched<ReceiveOperation> first;
    Watched<ReceiveOperation> second;
    Watched<ReceiveOperation> third;
    server.receive(first, buffers[0]);
    server.receive(second, std::span<std::byte>());
    server.receive(third, buffers[1]);
    run_ready();
    EXPECT_EQ(second.completion_count, 0U) << "it is not its turn";
    ASSERT_TRUE(client.write(bytes_of("ab")).has_value());
    run_until([&] { return second.completion_count == 1; });
    EXPECT_EQ(first.completion_count, 1U);
    EXPECT_EQ(second.count(), 0U);
    EXPECT_EQ(third.completion_count, 0U);
    ASSERT_TRUE(client.write(bytes_of("cd")).has_value());
    run_until([&] { return third.completion_count == 1; });
    EXPECT_EQ(text_of(std::span(buffers[1]).first(third.count())), "cd");
}

// What an operation was used for before does not matter.
TEST_P(NoRoomTest, OperationsAreUsedAgainWithNoParts) {
    auto [client, server] = connect_pair();
    std::array<std::byte, 10> buffer{};
    Watched<SendOperation> send;
    Watched<ReceiveOperation> receive;
    client.send(send, bytes_of("once"));
    server.receive(receive, buffer);
    run_until([&] { return send.completion_count == 1 && receive.completion_count == 1; });
    client.send(send, std::span<const iovec>());
    server.receive(receive, std::span<const iovec>());
    run_until([&] { return send.completion_count == 2 && receive.completion_count == 2; });
    EXPECT_EQ(send.count(), 0U);
    EXPECT_EQ(receive.count(), 0U);
    client.send(send, bytes_of("twice"));
    run_until([&] { return send.completion_count == 3; });
    EXPECT_EQ(text_of(receive_exactly(server, 5)), "twice");
}

TEST_P(NoRoomTest, ReceiveBehindOneThatIsCancelled) {
    auto [client, server] = connect_pair();
    std::array<std::byte, 10> buffer{};
    Watched<ReceiveOperation> first;
    Watched<ReceiveOperation> second;
    server.receive(first, buffer);
    server.receive(second, std::span<std::byte>());
    run_ready();
    EXPECT_EQ(second.completion_count, 0U);
    first.cancel();
    run_until([&] { return first.completion_count == 1; });
    expect_over_with_nothing(second);
}

TEST_P(NoRoomTest, ReceiveTakesNoDatagramAway) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    Watched<ReceiveOperation> receive;
    b.receive(receive, std::span<std::byte>());
    expect_over_with_nothing(receive);
    send(a, "one", b);
    run_ready();
    b.receive(receive, std::span<std::byte>());
    expect_over_with_nothing(receive, 2);
    std::array<std::byte, 10> buffer{};
    b.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 3; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "one");
}

TEST_P(NoRoomTest, EmptyBatchTakesNoDatagramAway) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    Watched<ReceiveBatchOperation> receive;
    b.receive(receive, {});
    expect_over_with_nothing(receive);
    send(a, "one", b);
    run_ready();
    b.receive(receive, {});
    expect_over_with_nothing(receive, 2);
    std::array<std::byte, 10> buffer{};
    std::array<Datagram, 1> datagrams;
    datagrams[0].buffer = buffer;
    b.receive(receive, datagrams);
    run_until([&] { return receive.completion_count == 3; });
    ASSERT_EQ(receive.count(), 1U);
    EXPECT_EQ(text_of(std::span(buffer).first(datagrams[0].size)), "one");
}

TEST_P(NoRoomTest, EmptySendsAreOverAtOnce) {
    auto [client, server] = connect_pair();
    DatagramSocket socket = open_at_loopback();
    Watched<SendOperation> send;
    Watched<SendBatchOperation> batch;
    client.send(send, std::span<const std::byte>());
    socket.send(batch, {});
    run_until([&] { return send.completion_count == 1 && batch.completion_count == 1; });
    EXPECT_FALSE(send.has_failed());
    EXPECT_FALSE(batch.has_failed()) << batch.error().message();
    EXPECT_EQ(batch.count(), 0U);
}

// The kernel tells of a connection that waits only once.
TEST_P(NoRoomTest, AcceptLosesNoConnection) {
    Listener listener = Listener::open(loop(), Address::loopback(Family::ipv4)).value();
    Watched<AcceptOperation> accept;
    listener.accept(accept, {});
    expect_over_with_nothing(accept);
    Stream client = Stream::open(loop(), *listener.local_endpoint()).value();
    Watched<ConnectOperation> connect;
    client.connect(connect);
    run_until([&] { return connect.completion_count == 1; });
    run_ready();
    listener.accept(accept, {});
    expect_over_with_nothing(accept, 2);
    run_ready();
    int socket = -1;
    listener.accept(accept, std::span(&socket, 1));
    run_until([&] { return accept.completion_count == 3; });
    ASSERT_EQ(accept.count(), 1U) << accept.error().message();
    EXPECT_TRUE(listener.take(socket).has_value());
}

TEST_P(NoRoomTest, AcceptBetweenOthers) {
    Listener listener = Listener::open(loop(), Address::loopback(Family::ipv4)).value();
    std::array<int, 2> sockets = {-1, -1};
    Watched<AcceptOperation> first;
    Watched<AcceptOperation> second;
    Watched<AcceptOperation> third;
    listener.accept(first, std::span(sockets).first(1));
    listener.accept(second, {});
    listener.accept(third, std::span(sockets).last(1));
    run_ready();
    EXPECT_EQ(second.completion_count, 0U) << "it is not its turn";
    std::array<Stream, 2> clients;
    std::array<Watched<ConnectOperation>, 2> connects;
    for (std::size_t i = 0; i < 2; ++i) {
        clients[i] = Stream::open(loop(), *listener.local_endpoint()).value();
        clients[i].connect(connects[i]);
        run_until([&] { return first.completion_count + third.completion_count == i + 1; });
        run_until([&] { return second.completion_count == 1; });
        EXPECT_TRUE(listener.take(sockets[i]).has_value());
    }
    EXPECT_EQ(second.count(), 0U);
    run_until([&] { return connects[1].completion_count == 1; });
}

BERTH_OVER_EVERY_ENGINE_OF(NoRoomTest);

}  // namespace
}  // namespace berth::test
