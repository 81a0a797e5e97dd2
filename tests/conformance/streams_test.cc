// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/engines.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <set>
#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class StreamTest : public EngineTest {};

TEST_P(StreamTest, BytesArriveInOrder) {
    auto [client, server] = connect_pair();
    std::vector<std::byte> sent;
    for (unsigned i = 0; i < 1000; ++i) {
        const std::vector<std::byte> message = pattern(1 + i * 7 % 300, i);
        sent.insert(sent.end(), message.begin(), message.end());
        ASSERT_TRUE(client.write(message).has_value());
    }
    ASSERT_TRUE(client.shut_down_write().has_value());
    const Everything received = receive_all(server);
    EXPECT_EQ(received.system_errno, 0);
    EXPECT_TRUE(received.bytes == sent);
}

TEST_P(StreamTest, OverIpv6) {
    auto [client, server] = connect_pair(Family::ipv6);
    ASSERT_TRUE(client.write(bytes_of("six")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 3)), "six");
    EXPECT_EQ(client.remote_endpoint()->address(), server.local_endpoint()->address());
}

TEST_P(StreamTest, OverUnixSockets) {
    auto [client, server] = connect_pair_at(unix_name());
    ASSERT_TRUE(server.write(bytes_of("unix")).has_value());
    EXPECT_EQ(text_of(receive_exactly(client, 4)), "unix");
}

TEST_P(StreamTest, ReceiveGivesWhatThereIs) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("0123456789")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 4)), "0123");
    EXPECT_EQ(text_of(receive_exactly(server, 4)), "4567");
    EXPECT_EQ(text_of(receive_exactly(server, 2)), "89");
}

TEST_P(StreamTest, LentAndOwnMemoryTakeTurns) {
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> lent;
    server.receive(lent);
    ASSERT_TRUE(client.write(bytes_of("first")).has_value());
    run_until([&] { return lent.completion_count == 1; });
    EXPECT_EQ(text_of(lent.data.bytes()), "first");
    ASSERT_TRUE(client.write(bytes_of("second, third")).has_value());
    run_ready();
    EXPECT_EQ(text_of(receive_exactly(server, 8)), "second, ");
    server.receive(lent);
    run_until([&] { return lent.completion_count == 2; });
    EXPECT_EQ(text_of(lent.data.bytes()), "third");
    lent.data.give_back();
}

/// Reads a stream to its end, and notes where what was large lay.
class PlaceNoter final : public ReceiveLentOperation {
public:
    PlaceNoter(Stream& stream, std::set<const std::byte*>& places)
        : ReceiveLentOperation(&PlaceNoter::received), stream_(stream), places_(places) {
        always_completes = true;
        stream_.receive(*this);
    }

    std::size_t size = 0;
    bool has_ended = false;

private:
    static void received(Operation& operation) noexcept {
        static_cast<PlaceNoter&>(operation).take();
    }
    void take() noexcept {
        constexpr std::size_t kLarge = 8 * 1024;
        if (!data) {
            has_ended = true;
            return;
        }
        size += data.size();
        if (data.size() > kLarge) {
            places_.insert(data.data());
        }
        data.give_back();
        stream_.receive(*this);
    }

    Stream& stream_;
    std::set<const std::byte*>& places_;
};

// So it is still in the cache.
TEST_P(StreamTest, MemoryThatComesBackIsWhatTheNextStreamIsReadInto) {
    constexpr std::size_t kSize = 256 * 1024;
    constexpr std::size_t kStreams = 20;
    std::vector<Pair> pairs;
    std::deque<PlaceNoter> readers;
    std::set<const std::byte*> places;
    for (std::size_t i = 0; i < kStreams; ++i) {
        pairs.push_back(connect_pair());
    }
    const std::vector<std::byte> sent = pattern(kSize);
    for (Pair& pair : pairs) {
        ASSERT_TRUE(pair.client.write(sent).has_value());
        ASSERT_TRUE(pair.client.shut_down_write().has_value());
        readers.emplace_back(pair.server, places);
    }
    run_until([&] { return std::ranges::all_of(readers, &PlaceNoter::has_ended); });
    for (const PlaceNoter& reader : readers) {
        EXPECT_EQ(reader.size, kSize);
    }
    EXPECT_LE(places.size(), 4U);
    EXPECT_GE(places.size(), 1U);
}

TEST_P(StreamTest, AReceiveThatGoesLeavesItsTurnToTheNext) {
    auto [other_client, other_server] = connect_pair();
    auto [client, server] = connect_pair();
    auto first = std::make_unique<Watched<ReceiveLentOperation>>();
    Watched<ReceiveLentOperation> second;
    bool has_taken = GetParam() == EngineKind::io_uring;  // it may have by then, and then it has
    Watched<ReceiveLentOperation> other([&] {
        has_taken = has_taken || first->completion_count > 0;
        first.reset();
    });
    other_server.receive(other);
    server.receive(*first);
    server.receive(second);
    run_ready();
    ASSERT_TRUE(other_client.write(bytes_of("x")).has_value());
    ASSERT_TRUE(client.write(bytes_of("one")).has_value());
    run_until([&] { return other.completion_count == 1; });
    if (has_taken) {
        ASSERT_TRUE(client.write(bytes_of("two")).has_value());
    }
    run_until([&] { return second.completion_count == 1; });
    second.data.give_back();
    other.data.give_back();
    run_until([&] { return loop().statistics().pending_count == 0; });
}

TEST_P(StreamTest, CancellingBehindAReceiveThatIsAboutToBeTriedKeepsTheOrder) {
    auto [trigger_client, trigger] = connect_pair();
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> first;
    Watched<ReceiveLentOperation> second;
    Watched<ReceiveLentOperation> third;
    Watched<ReceiveLentOperation> canceller([&] { second.cancel(); });
    trigger.receive(canceller);
    server.receive(first);
    server.receive(second);
    server.receive(third);
    run_ready();
    ASSERT_TRUE(trigger_client.write(bytes_of("go")).has_value());
    ASSERT_TRUE(client.write(bytes_of("one")).has_value());
    run_until([&] { return first.completion_count == 1 && second.completion_count == 1; });
    EXPECT_EQ(text_of(first.data.bytes()), "one");
    EXPECT_EQ(third.completion_count, 0U);
    ASSERT_TRUE(client.write(bytes_of("two")).has_value());
    run_until([&] { return third.completion_count == 1; });
    EXPECT_EQ(text_of(third.data.bytes()), "two");
    EXPECT_EQ(second.data.error().code(), Errc::cancelled);
}

TEST_P(StreamTest, LargeSendGoesOutWhole) {
    auto [client, server] = connect_pair();
    const std::vector<std::byte> sent = pattern(8 << 20);
    Watched<SendOperation> send;
    client.send(send, sent);
    const std::vector<std::byte> received = receive_exactly(server, sent.size());
    run_until([&] { return send.completion_count == 1; });
    EXPECT_EQ(send.count(), sent.size());
    EXPECT_TRUE(received == sent);
}

TEST_P(StreamTest, PartsGoOutInOrder) {
    auto [client, server] = connect_pair();
    const std::vector<std::byte> sent = pattern(300 * 1000);
    std::vector<iovec> parts;
    for (std::size_t i = 0; i < 300; ++i) {
        parts.push_back({const_cast<std::byte*>(sent.data()) + i * 1000, 1000});
    }
    Watched<SendOperation> send;
    client.send(send, parts);
    const std::vector<std::byte> received = receive_exactly(server, sent.size());
    run_until([&] { return send.completion_count == 1; });
    EXPECT_EQ(send.count(), sent.size());
    EXPECT_TRUE(received == sent);
}

TEST_P(StreamTest, PartsAreFilledInOrder) {
    auto [client, server] = connect_pair();
    std::vector<std::byte> first(3);
    std::vector<std::byte> second(5);
    const std::array parts = {iovec{first.data(), first.size()}, iovec{nullptr, 0},
                              iovec{second.data(), second.size()}};
    Watched<ReceiveOperation> receive;
    server.receive(receive, parts);
    run_ready();
    ASSERT_TRUE(client.write(bytes_of("abcdefghij")).has_value());
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.count(), 8U);
    EXPECT_EQ(text_of(first) + text_of(second), "abcdefgh");
    EXPECT_EQ(text_of(receive_exactly(server, 2)), "ij");
    // What has come before, in pieces (io_uring has received it already), and less than the room.
    Watched<ReceiveLentOperation> lent;
    for (int i = 0; i < 8; ++i) {
        server.receive(lent);
        ASSERT_TRUE(client.write(bytes_of("short")).has_value());
        run_until([&] { return !lent.is_pending(); });
        lent.data.give_back();
    }
    ASSERT_TRUE(client.write(bytes_of("12")).has_value());
    run_ready();
    ASSERT_TRUE(client.write(bytes_of("345")).has_value());
    run_ready();
    server.receive(receive, parts);
    run_until([&] { return receive.completion_count == 2; });
    EXPECT_EQ(receive.count(), 5U);
    EXPECT_EQ((text_of(first) + text_of(second)).substr(0, 5), "12345");
}

TEST_P(StreamTest, SendsOfBothKindsKeepTheirOrder) {
    auto [client, server] = connect_pair();
    const std::vector<std::byte> large = pattern(3 << 20, 1);
    const std::vector<std::byte> small = pattern(100, 2);
    Watched<SendOperation> first;
    Watched<SendOperation> third;
    client.send(first, large);
    ASSERT_TRUE(client.write(small).has_value());
    client.send(third, large);
    ASSERT_TRUE(client.write(small).has_value());
    std::vector<std::byte> expected;
    for (const auto* part : {&large, &small, &large, &small}) {
        expected.insert(expected.end(), part->begin(), part->end());
    }
    EXPECT_TRUE(receive_exactly(server, expected.size()) == expected);
    run_until([&] { return third.completion_count == 1; });
    EXPECT_EQ(first.completion_count, 1U);
}

TEST_P(StreamTest, EndOfStreamComesAfterTheData) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("last words")).has_value());
    client.close();
    run_ready();
    const Everything received = receive_all(server);
    EXPECT_EQ(text_of(received.bytes), "last words");
    EXPECT_EQ(received.system_errno, 0);
    // It stays the end.
    EXPECT_TRUE(receive_exactly(server, 1).empty());
}

TEST_P(StreamTest, HalfCloseLeavesTheOtherDirection) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("question")).has_value());
    ASSERT_TRUE(client.shut_down_write().has_value());
    EXPECT_EQ(text_of(receive_all(server).bytes), "question");
    ASSERT_TRUE(server.write(bytes_of("answer")).has_value());
    EXPECT_EQ(text_of(receive_exactly(client, 6)), "answer");
}

TEST_P(StreamTest, ResetIsAnError) {
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive);
    run_ready();
    client.reset();
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_TRUE(receive.data.is_error());
    EXPECT_EQ(receive.data.error().code(), Errc::reset);
}

TEST_P(StreamTest, SendingToOneWhoHasGoneIsAnError) {
    auto [client, server] = connect_pair();
    client.reset();
    run_ready();
    Watched<SendOperation> send;
    const std::vector<std::byte> bytes = pattern(1000);
    for (int i = 0; i < 3; ++i) {
        server.send(send, bytes);
        run_until([&] { return !send.is_pending(); });
    }
    ASSERT_TRUE(send.has_failed());
    EXPECT_THAT(send.error().code(), testing::AnyOf(Errc::reset, Errc::closed));
}

// The kernel has told the send, and tells nobody again.
TEST_P(StreamTest, ResetThatASendHasLearntOfIsNoEndOfTheStream) {
    for (const bool waits_before : {false, true}) {
        auto [client, server] = connect_pair();
        Watched<SendOperation> send;
        Watched<ReceiveLentOperation> lent;
        if (waits_before) {
            server.receive(lent);
            run_ready();
        }
        client.reset();
        server.send(send, bytes_of("is anybody there?"));
        run_until([&] { return !send.is_pending(); });
        if (!waits_before) {
            server.receive(lent);
        }
        run_until([&] { return !lent.is_pending(); });
        EXPECT_EQ(lent.data.error().code(), Errc::reset);
        std::vector<std::byte> buffer(10);
        Watched<ReceiveOperation> receive;
        server.receive(receive, buffer);
        run_until([&] { return !receive.is_pending(); });
        if (!waits_before) {
            ASSERT_TRUE(receive.has_failed());
            EXPECT_EQ(receive.error().code(), Errc::reset);
        }
    }
}

TEST_P(StreamTest, RefusedConnect) {
    Result<Listener> listener = Listener::open(loop(), Address::loopback(Family::ipv4));
    const Endpoint nobody = *listener->local_endpoint();
    listener->close();
    run_ready();
    Stream stream = Stream::open(loop(), nobody).value();
    Watched<ConnectOperation> connect;
    stream.connect(connect, within(5s));
    run_until([&] { return connect.completion_count == 1; });
    ASSERT_TRUE(connect.has_failed());
    EXPECT_EQ(connect.error().code(), Errc::refused);
    EXPECT_THAT(connect.error().message(), testing::HasSubstr(nobody.to_string()));
}

TEST_P(StreamTest, CancelledReceiveHasConsumedNothing) {
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive);
    run_ready();
    EXPECT_EQ(receive.completion_count, 0U);
    receive.cancel();
    EXPECT_EQ(receive.completion_count, 0U) << "never inside the call";
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.data.error().code(), Errc::cancelled);
    ASSERT_TRUE(client.write(bytes_of("later")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 5)), "later");
    EXPECT_EQ(receive.completion_count, 1U);
}

TEST_P(StreamTest, DeadlineOfAReceive) {
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    const TimePoint start = loop().now();
    server.receive(receive, within(20ms));
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.data.error().code(), Errc::timed_out);
    EXPECT_GE(loop().now() - start, 20ms);
    ASSERT_TRUE(client.write(bytes_of("late")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 4)), "late");
}

TEST_P(StreamTest, ResultThatIsThereWinsOverItsDeadline) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("in time")).has_value());
    run_ready();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive, within(0ns));
    run_until([&] { return receive.completion_count == 1; });
    // io_uring may have had to ask the kernel first.
    if (receive.data) {
        EXPECT_EQ(text_of(receive.data.bytes()), "in time");
        receive.data.give_back();
    } else {
        EXPECT_EQ(receive.data.error().code(), Errc::timed_out);
    }
}

TEST_P(StreamTest, PartlySentSendThatEndsBreaksTheStream) {
    auto [client, server] = connect_pair();
    const std::vector<std::byte> large = pattern(16 << 20);
    Watched<SendOperation> send;
    client.send(send, large, within(50ms));
    run_until([&] { return send.completion_count == 1; });
    ASSERT_TRUE(send.has_failed());
    EXPECT_EQ(send.error().code(), Errc::timed_out);
    EXPECT_GT(send.sent, 0U);
    EXPECT_LT(send.sent, large.size());
    Watched<SendOperation> next;
    client.send(next, bytes_of("more"));
    run_until([&] { return next.completion_count == 1; });
    EXPECT_EQ(next.error().code(), Errc::closed);
    client.close();
    const Everything received = receive_all(server);
    EXPECT_EQ(received.bytes.size(), send.sent);
    EXPECT_TRUE(std::equal(received.bytes.begin(), received.bytes.end(), large.begin()));
}

TEST_P(StreamTest, CloseEndsWhatIsPending) {
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    Watched<SendOperation> send;
    Watched<CloseOperation> close;
    const std::vector<std::byte> large = pattern(16 << 20);
    server.receive(receive);
    server.send(send, large);
    run_ready();
    bool has_closed_last = false;
    close.then = [&] {
        has_closed_last = receive.completion_count == 1 && send.completion_count == 1;
    };
    server.close(close);
    EXPECT_FALSE(server.is_open());
    EXPECT_EQ(receive.completion_count + send.completion_count + close.completion_count, 0U);
    run_until([&] { return close.completion_count == 1; });
    EXPECT_TRUE(has_closed_last);
    EXPECT_EQ(receive.data.error().code(), Errc::cancelled);
    EXPECT_EQ(send.error().code(), Errc::cancelled);
}

TEST_P(StreamTest, CloseInsideACompletion) {
    auto [client, server] = connect_pair();
    Stream& closing = server;
    Watched<ReceiveLentOperation> receive;
    receive.then = [&] {
        receive.data.give_back();
        closing.close();
    };
    server.receive(receive);
    ASSERT_TRUE(client.write(bytes_of("go")).has_value());
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive_all(client).bytes.size(), 0U);
}

TEST_P(StreamTest, OperationThatGoesWhilePendingIsOver) {
    auto [client, server] = connect_pair();
    {
        Watched<ReceiveLentOperation> receive;
        std::vector<std::byte> buffer(100);
        server.receive(receive);
        run_ready();
    }
    {
        std::vector<std::byte> buffer(100);
        Watched<ReceiveOperation> receive;
        server.receive(receive, buffer, within(1h));
        run_ready();
    }
    EXPECT_EQ(loop().statistics().pending_count, 0U);
    ASSERT_TRUE(client.write(bytes_of("still works")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 11)), "still works");
}

TEST_P(StreamTest, CompletionsNeverRunInsideASubmission) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("x")).has_value());
    run_ready();
    bool is_submitting = true;
    Watched<ReceiveLentOperation> receive([&] { EXPECT_FALSE(is_submitting); });
    Watched<SendOperation> send([&] { EXPECT_FALSE(is_submitting); });
    EXPECT_EQ(server.receive(receive), Start::pending);
    EXPECT_EQ(server.send(send, bytes_of("y")), Start::pending);
    is_submitting = false;
    run_until([&] { return receive.completion_count == 1 && send.completion_count == 1; });
    receive.data.give_back();
}

TEST_P(StreamTest, KeptMemoryStaysAsItIs) {
    auto [client, server] = connect_pair();
    std::vector<Lent> kept;
    Watched<ReceiveLentOperation> receive;
    receive.then = [&] {
        kept.push_back(std::move(receive.data));
        server.receive(receive);
    };
    server.receive(receive);
    std::string sent;
    for (int i = 0; i < 50; ++i) {
        const std::string text = "message " + std::to_string(i) + ";";
        sent += text;
        ASSERT_TRUE(client.write(bytes_of(text)).has_value());
        run_ready();
    }
    const auto total = [&] {
        return std::accumulate(kept.begin(), kept.end(), std::size_t{0},
                               [](std::size_t sum, const Lent& lent) { return sum + lent.size(); });
    };
    run_until([&] { return total() == sent.size(); });
    std::string received;
    for (const Lent& lent : kept) {
        received += text_of(lent.bytes());
    }
    EXPECT_EQ(received, sent);
    receive.then = {};
    receive.cancel();
    run_until([&] { return !receive.is_pending(); });
    kept.clear();
}

TEST_P(StreamTest, BusyStreamLeavesOthersTheirTurn) {
    Pair busy = connect_pair();
    Pair other = connect_pair();
    Watched<ReceiveLentOperation> other_receive;
    other.server.receive(other_receive);
    ASSERT_TRUE(other.client.write(bytes_of("me too")).has_value());
    // The busy stream sends to itself for ever, each completion starts the next.
    Watched<SendOperation> send;
    Watched<ReceiveLentOperation> receive;
    const std::vector<std::byte> block = pattern(60'000);
    send.then = [&] { busy.client.send(send, block); };
    receive.then = [&] {
        receive.data.give_back();
        busy.server.receive(receive);
    };
    busy.client.send(send, block);
    busy.server.receive(receive);
    run_until([&] { return other_receive.completion_count == 1; });
    EXPECT_EQ(text_of(other_receive.data.bytes()), "me too");
    other_receive.data.give_back();
    send.then = {};
    receive.then = [&] { receive.data.give_back(); };
    send.cancel();
    receive.cancel();
    run_until([&] { return !send.is_pending() && !receive.is_pending(); });
}

TEST_P(StreamTest, ClosedStreamSaysSo) {
    Stream stream;
    Watched<SendOperation> send;
    EXPECT_EQ(stream.send(send, bytes_of("x")), Start::done);
    EXPECT_EQ(send.error().code(), Errc::invalid_argument);
    EXPECT_FALSE(stream.write(bytes_of("x")).has_value());
    EXPECT_FALSE(stream.shut_down_write().has_value());
    stream.close();
    stream.reset();
    EXPECT_FALSE(stream.release().is_open());
}

TEST_P(StreamTest, ReceiveOfNoBytes) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("x")).has_value());
    run_ready();
    Watched<ReceiveOperation> receive;
    server.receive(receive, std::span<std::byte>());
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_FALSE(receive.has_failed());
    EXPECT_EQ(receive.count(), 0U);
    Watched<SendOperation> send;
    server.send(send, std::span<const std::byte>());
    run_until([&] { return send.completion_count == 1; });
    EXPECT_FALSE(send.has_failed());
    EXPECT_EQ(text_of(receive_exactly(server, 1)), "x");
}

TEST_P(StreamTest, AThousandConnections) {
    constexpr unsigned kCount = 1000;
    std::vector<Pair> pairs;
    for (unsigned i = 0; i < kCount; ++i) {
        pairs.push_back(connect_pair());
    }
    unsigned echoed = 0;
    std::vector<std::unique_ptr<Watched<ReceiveLentOperation>>> receives;
    for (Pair& pair : pairs) {
        auto& receive = *receives.emplace_back(std::make_unique<Watched<ReceiveLentOperation>>());
        receive.then = [&] {
            EXPECT_EQ(text_of(receive.data.bytes()), "hello");
            receive.data.give_back();
            ++echoed;
        };
        pair.server.receive(receive);
    }
    for (Pair& pair : pairs) {
        ASSERT_TRUE(pair.client.write(bytes_of("hello")).has_value());
    }
    run_until([&] { return echoed == kCount; });
}

BERTH_OVER_EVERY_ENGINE_OF(StreamTest);

}  // namespace
}  // namespace berth::test
