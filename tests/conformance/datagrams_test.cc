// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/engines.h"

#include <berth/datagram_socket.h>
#include <berth/task.h>

#include <array>
#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class DatagramTest : public EngineTest {
protected:
    DatagramSocket open_at_loopback(const DatagramOptions& options = {},
                                    Family family = Family::ipv4) {
        return DatagramSocket::open(loop(), Address::loopback(family), options).value();
    }

    // Sends one datagram and waits until the kernel has it.
    void send(DatagramSocket& from, std::span<const std::byte> bytes, const Endpoint& to) {
        Watched<SendToOperation> send;
        from.send(send, bytes, to);
        run_until([&] { return send.completion_count == 1; });
        ASSERT_FALSE(send.has_failed()) << send.error().message();
    }
};

TEST_P(DatagramTest, ArrivesWithItsSender) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    send(a, bytes_of("hello"), *b.local_endpoint());
    std::array<std::byte, 100> buffer;
    Watched<ReceiveFromOperation> receive;
    b.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "hello");
    EXPECT_EQ(receive.from, *a.local_endpoint());
    EXPECT_FALSE(receive.is_truncated);
    EXPECT_EQ(receive.segment_size, 0);
}

TEST_P(DatagramTest, OverIpv6) {
    DatagramSocket a = open_at_loopback({}, Family::ipv6);
    DatagramSocket b = open_at_loopback({}, Family::ipv6);
    std::array<std::byte, 100> buffer;
    Watched<ReceiveFromOperation> receive;
    b.receive(receive, buffer);
    run_ready();
    send(a, bytes_of("six"), *b.local_endpoint());
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.from, *a.local_endpoint());
}

TEST_P(DatagramTest, EmptyOnesAndTheLongestOnes) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    const std::vector<std::byte> longest = pattern(65'507);
    std::vector<std::byte> buffer(70'000);
    Watched<ReceiveFromOperation> receive;
    send(a, {}, *b.local_endpoint());
    b.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_FALSE(receive.has_failed());
    EXPECT_EQ(receive.count(), 0U);
    EXPECT_EQ(receive.from, *a.local_endpoint());
    send(a, longest, *b.local_endpoint());
    b.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 2; });
    ASSERT_EQ(receive.count(), longest.size());
    EXPECT_TRUE(std::equal(longest.begin(), longest.end(), buffer.begin()));
}

TEST_P(DatagramTest, TooLongAOneIsAnError) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    const std::vector<std::byte> too_long = pattern(65'508);
    Watched<SendToOperation> too_long_send;
    a.send(too_long_send, too_long, *b.local_endpoint());
    run_until([&] { return too_long_send.completion_count == 1; });
    EXPECT_EQ(too_long_send.error().code(), Errc::too_long);
    send(a, bytes_of("short"), *b.local_endpoint());
}

TEST_P(DatagramTest, OneThatDoesNotFitIsCutAndSaysSo) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    send(a, bytes_of("too long for it"), *b.local_endpoint());
    std::array<std::byte, 8> buffer;
    Watched<ReceiveFromOperation> receive;
    b.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "too long");
    EXPECT_TRUE(receive.is_truncated);
}

TEST_P(DatagramTest, PartsAreFilledInOrder) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    std::array<std::byte, 4> header;
    std::array<std::byte, 8> payload;
    const std::array parts = {iovec{header.data(), header.size()},
                              iovec{payload.data(), payload.size()}};
    Watched<ReceiveFromOperation> receive;
    b.receive(receive, parts);
    run_ready();
    send(a, bytes_of("headpayload"), *b.local_endpoint());
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.count(), 11U);
    EXPECT_EQ(text_of(header), "head");
    EXPECT_EQ(text_of(std::span(payload).first(7)), "payload");
    EXPECT_EQ(receive.from, *a.local_endpoint());
    EXPECT_FALSE(receive.is_truncated);
    send(a, bytes_of("one that does not fit"), *b.local_endpoint());
    b.receive(receive, parts);
    run_until([&] { return receive.completion_count == 2; });
    EXPECT_EQ(receive.count(), 12U);
    EXPECT_EQ(text_of(payload), "that doe");
    EXPECT_TRUE(receive.is_truncated);
}

TEST_P(DatagramTest, ConnectedOnesNeedNoAddresses) {
    DatagramSocket server = open_at_loopback();
    DatagramSocket client = DatagramSocket::open_to(loop(), *server.local_endpoint()).value();
    ASSERT_TRUE(server.connect(*client.local_endpoint()).has_value());
    Watched<SendToOperation> send;
    client.send(send, bytes_of("question"));
    std::array<std::byte, 100> buffer;
    Watched<ReceiveOperation> receive;
    server.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 1 && send.completion_count == 1; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "question");
}

TEST_P(DatagramTest, ACoroutineLearnsWhoHasSentADatagram) {
    DatagramSocket here = DatagramSocket::open(loop(), Address::loopback(Family::ipv4)).value();
    DatagramSocket there = DatagramSocket::open(loop(), Address::loopback(Family::ipv4)).value();
    std::array<std::byte, 100> buffer;
    Watched<SendToOperation> send;
    there.send(send, bytes_of("from there"), *here.local_endpoint());
    const auto receive = [&]() -> Task<Result<ReceivedFrom>> {
        co_return co_await here.receive_from(buffer, within(10s));
    };
    const Result<ReceivedFrom> received = block_on(loop(), receive());
    ASSERT_TRUE(received.has_value()) << received.error().message();
    EXPECT_EQ(text_of(std::span(buffer).first(received->size)), "from there");
    EXPECT_EQ(received->from, *there.local_endpoint());
    EXPECT_FALSE(received->is_truncated);
    run_until([&] { return send.completion_count == 1; });
}

TEST_P(DatagramTest, PortUnreachableReachesAConnectedSocket) {
    // A connected socket takes nobody else's datagrams, and keeps the port from others.
    DatagramSocket nobody = open_at_loopback();
    ASSERT_TRUE(nobody.connect(Address::loopback(Family::ipv4, 9)).has_value());
    const Endpoint gone = *nobody.local_endpoint();
    DatagramSocket client = DatagramSocket::open_to(loop(), gone).value();
    std::array<std::byte, 100> buffer;
    Watched<ReceiveOperation> receive;
    client.receive(receive, buffer);
    run_ready();
    Watched<SendToOperation> send;
    client.send(send, bytes_of("anybody?"));
    run_until([&] { return receive.completion_count == 1 && send.completion_count == 1; });
    EXPECT_EQ(receive.error().code(), Errc::refused);
    // The socket goes on working.
    client.send(send, bytes_of("still nobody?"));
    client.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 2 && send.completion_count == 2; });
    EXPECT_EQ(receive.error().code(), Errc::refused);
}

TEST_P(DatagramTest, BatchesBothWays) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    constexpr std::size_t kCount = 150;
    std::vector<std::string> texts;
    std::vector<Datagram> out(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        texts.push_back("datagram " + std::to_string(i));
    }
    for (std::size_t i = 0; i < kCount; ++i) {
        out[i].buffer = {reinterpret_cast<std::byte*>(texts[i].data()), texts[i].size()};
        out[i].peer = b.local_endpoint()->address();
        out[i].has_peer = true;
    }
    Watched<SendBatchOperation> send;
    a.send(send, out);
    run_until([&] { return send.completion_count == 1; });
    ASSERT_EQ(send.count(), kCount) << send.error().message();
    std::vector<std::array<std::byte, 64>> memory(64);
    std::vector<Datagram> in(64);
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i].buffer = memory[i];
    }
    std::size_t received = 0;
    Watched<ReceiveBatchOperation> receive;
    receive.then = [&] {
        ASSERT_FALSE(receive.has_failed());
        for (const Datagram& datagram : std::span(in).first(receive.count())) {
            EXPECT_EQ(text_of(datagram.buffer.first(datagram.size)), texts[received]);
            EXPECT_EQ(datagram.peer, a.local_endpoint()->address());
            ++received;
        }
        if (received < kCount) {
            b.receive(receive, in);
        }
    };
    b.receive(receive, in);
    run_until([&] { return received == kCount; });
}

TEST_P(DatagramTest, SegmentsAreCutAndJoined) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback({.joins_segments = true});
    const std::vector<std::byte> bytes = pattern(10 * 1000 + 300);
    Watched<SendToOperation> send;
    send.segment_size = 1000;
    a.send(send, bytes, *b.local_endpoint());
    run_until([&] { return send.completion_count == 1; });
    ASSERT_FALSE(send.has_failed()) << send.error().message();
    std::vector<std::byte> buffer(65'536);
    std::vector<std::byte> received;
    Watched<ReceiveFromOperation> receive;
    receive.then = [&] {
        ASSERT_FALSE(receive.has_failed());
        if (receive.count() > 1000) {
            EXPECT_EQ(receive.segment_size, 1000);
        }
        received.insert(received.end(), buffer.begin(),
                        buffer.begin() + static_cast<std::ptrdiff_t>(receive.count()));
        if (received.size() < bytes.size()) {
            b.receive(receive, buffer);
        }
    };
    b.receive(receive, buffer);
    run_until([&] { return received.size() >= bytes.size(); });
    EXPECT_TRUE(received == bytes);
}

TEST_P(DatagramTest, DeadlineAndCancellation) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    std::array<std::byte, 100> buffer;
    Watched<ReceiveFromOperation> receive;
    b.receive(receive, buffer, within(10ms));
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.error().code(), Errc::timed_out);
    b.receive(receive, buffer);
    run_ready();
    receive.cancel();
    run_until([&] { return receive.completion_count == 2; });
    EXPECT_EQ(receive.error().code(), Errc::cancelled);
    send(a, bytes_of("not lost"), *b.local_endpoint());
    b.receive(receive, buffer);
    run_until([&] { return receive.completion_count == 3; });
    EXPECT_EQ(text_of(std::span(buffer).first(receive.count())), "not lost");
}

TEST_P(DatagramTest, CloseEndsWhatIsPending) {
    DatagramSocket socket = open_at_loopback();
    std::array<std::byte, 100> buffer;
    Watched<ReceiveFromOperation> receive;
    Watched<ReceiveFromOperation> second;
    socket.receive(receive, buffer);
    socket.receive(second, buffer);
    run_ready();
    socket.close();
    run_until([&] { return receive.completion_count == 1 && second.completion_count == 1; });
    EXPECT_EQ(receive.error().code(), Errc::cancelled);
    EXPECT_EQ(second.error().code(), Errc::cancelled);
}

TEST_P(DatagramTest, ReceivesAreServedInOrder) {
    DatagramSocket a = open_at_loopback();
    DatagramSocket b = open_at_loopback();
    std::array<std::array<std::byte, 16>, 3> buffers;
    std::array<Watched<ReceiveFromOperation>, 3> receives;
    for (std::size_t i = 0; i < 3; ++i) {
        b.receive(receives[i], buffers[i]);
    }
    run_ready();
    for (const char* text : {"0", "1", "2"}) {
        send(a, bytes_of(text), *b.local_endpoint());
    }
    run_until([&] { return receives[2].completion_count == 1; });
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(receives[i].completion_count, 1U);
        EXPECT_EQ(text_of(std::span(buffers[i]).first(1)), std::to_string(i));
    }
}

BERTH_OVER_EVERY_ENGINE_OF(DatagramTest);

}  // namespace
}  // namespace berth::test
