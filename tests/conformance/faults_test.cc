// SPDX-License-Identifier: Apache-2.0

// What the simulated stress has found, one by one: faults at one certain call, over each engine
// that can run in a simulated kernel.

#include "src/base/system_calls.h"
#include "src/engine/simulation/simulation.h"
#include "tests/conformance/watched.h"

#include <berth/listener.h>
#include <berth/loop.h>
#include <berth/stream.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace berth::test {
namespace {

using namespace std::chrono_literals;
using internal::CallKind;

class FaultsTest : public testing::TestWithParam<EngineKind> {
protected:
    struct Pair {
        Stream one;
        Stream other;
    };
    struct Client {
        Stream stream;
        Watched<ConnectOperation> connect;
    };

    Loop& loop() { return *loop_; }
    void run_ready() {
        for (int turn = 0; turn < 50; ++turn) {
            ASSERT_TRUE(loop().run_once().has_value());
        }
    }
    Pair make_pair() {
        const auto [one, other] = simulation_.make_socket_pair(SOCK_STREAM);
        return {Stream::adopt(loop(), Descriptor(one)).value(),
                Stream::adopt(loop(), Descriptor(other)).value()};
    }
    Listener listen() { return Listener::open(loop(), Address::loopback(Family::ipv4)).value(); }
    std::unique_ptr<Client> connect_to(const Listener& listener) {
        auto client = std::make_unique<Client>();
        client->stream = Stream::open(loop(), *listener.local_endpoint()).value();
        client->stream.connect(client->connect);
        return client;
    }
    /// What has come, up to `most` bytes.
    std::vector<std::byte> receive_what_there_is(Stream& stream) {
        std::vector<std::byte> bytes;
        Watched<ReceiveLentOperation> receive;
        receive.then = [&] {
            const auto more = receive.data.bytes();
            bytes.insert(bytes.end(), more.begin(), more.end());
            const bool goes_on = static_cast<bool>(receive.data);
            receive.data.give_back();
            if (goes_on) stream.receive(receive);
        };
        stream.receive(receive);
        run_ready();
        receive.then = {};
        return bytes;
    }
    static std::vector<std::byte> block(std::size_t size, unsigned value) {
        return std::vector<std::byte>(size, static_cast<std::byte>(value));
    }

    internal::Simulation simulation_;
    std::optional<Loop> loop_ = Loop::create({.engine = GetParam()}).value();
};

TEST_P(FaultsTest, AbortedConnectionLeavesNoHoleInWhatWasAccepted) {
    Listener listener = listen();
    const auto first = connect_to(listener);
    const auto second = connect_to(listener);
    run_ready();
    simulation_.faults().fail({.kind = CallKind::accept4}, ECONNABORTED);
    std::array<int, 2> sockets = {-1, -1};
    Watched<AcceptOperation> accept;
    listener.accept(accept, sockets);
    run_ready();
    ASSERT_EQ(accept.completion_count, 1U);
    ASSERT_EQ(accept.count(), 2U);
    EXPECT_TRUE(listener.take(sockets[0]).has_value());
    EXPECT_TRUE(listener.take(sockets[1]).has_value());
}

TEST_P(FaultsTest, WhoWaitsBehindAnAbortedConnectionIsAccepted) {
    Listener listener = listen();
    int socket = -1;
    Watched<AcceptOperation> accept;
    listener.accept(accept, std::span(&socket, 1));
    run_ready();
    simulation_.faults().fail({.kind = CallKind::accept4}, EPROTO);
    const auto client = connect_to(listener);
    run_ready();
    ASSERT_EQ(accept.completion_count, 1U);
    EXPECT_TRUE(listener.take(socket).has_value());
}

TEST_P(FaultsTest, AcceptedSocketsGoWithAnAcceptThatIsThrownAway) {
    std::array<Listener, 2> listeners = {listen(), listen()};
    std::array<int, 2> sockets = {-1, -1};
    std::array<std::optional<Watched<AcceptOperation>>, 2> accepts;
    std::size_t remaining = 0;
    unsigned completion_count = 0;
    for (std::size_t i = 0; i < 2; ++i) {
        accepts[i].emplace([&, i] {
            ++completion_count;
            remaining = i;
            accepts[1 - i].reset();
        });
        listeners[i].accept(*accepts[i], std::span(&sockets[i], 1));
    }
    run_ready();
    const std::size_t before = simulation_.open_descriptor_count();
    const auto first = connect_to(listeners[0]);
    const auto second = connect_to(listeners[1]);
    run_ready();
    ASSERT_EQ(completion_count, 1U);
    // The two clients, and the one accepted connection that somebody knows of.
    EXPECT_EQ(simulation_.open_descriptor_count(), before + 3) << simulation_.open_descriptors();
    Descriptor(sockets[remaining]).reset();
}

TEST_P(FaultsTest, ReceiveBehindOneThatIsThrownAwayIsServed) {
    std::array<Pair, 2> pairs = {make_pair(), make_pair()};
    std::array<std::optional<Watched<ReceiveLentOperation>>, 2> firsts;
    std::array<Watched<ReceiveLentOperation>, 2> seconds;
    unsigned completion_count = 0;
    std::size_t thrown_away = 0;
    for (std::size_t i = 0; i < 2; ++i) {
        firsts[i].emplace([&, i] {
            if (++completion_count == 1) {
                thrown_away = 1 - i;
                firsts[thrown_away].reset();
            }
        });
        pairs[i].one.receive(*firsts[i]);
        pairs[i].one.receive(seconds[i]);
    }
    run_ready();
    for (Pair& pair : pairs) {
        ASSERT_TRUE(pair.other.write(block(10, 1)).has_value());
    }
    run_ready();
    ASSERT_EQ(completion_count, 1U);
    EXPECT_EQ(seconds[thrown_away].completion_count, 1U);
    EXPECT_EQ(seconds[thrown_away].data.size(), 10U);
    firsts[0].reset();
    firsts[1].reset();
    seconds[thrown_away].data.give_back();
}

TEST_P(FaultsTest, BytesThatNobodyReadsDoNotKeepTheLoopAwake) {
    Pair pair = make_pair();
    std::array<std::byte, 4> buffer{};
    Watched<ReceiveLentOperation> first;
    Watched<ReceiveOperation> second;
    pair.one.receive(first);
    pair.one.receive(second, buffer);
    run_ready();
    // More than the first has room for: the second is served right behind it.
    ASSERT_TRUE(pair.other.write(block(80'000, 1)).has_value());
    run_ready();
    ASSERT_EQ(first.completion_count, 1U);
    ASSERT_EQ(second.completion_count, 1U);
    const std::uint64_t before = loop().statistics().wait_count;
    ASSERT_TRUE(loop().run_until(within(10ms)).has_value());
    EXPECT_LE(loop().statistics().wait_count - before, 10U);
    first.data.give_back();
}

// A connection that broke is told of once: here to the write.
TEST_P(FaultsTest, ResetThatASendHasLearntOfIsNoEndOfTheStream) {
    Listener listener = listen();
    const auto client = connect_to(listener);
    int socket = -1;
    Watched<AcceptOperation> accept;
    listener.accept(accept, std::span(&socket, 1));
    run_ready();
    Stream server = listener.take(socket).value();
    client->stream.reset();
    run_ready();
    EXPECT_FALSE(server.write(block(10, 1)).has_value());
    Watched<ReceiveLentOperation> receive;
    server.receive(receive);
    run_ready();
    ASSERT_EQ(receive.completion_count, 1U);
    EXPECT_EQ(receive.data.error().code(), Errc::reset);
}

TEST_P(FaultsTest, SendsBehindOneThatFailedAreNotSent) {
    Pair pair = make_pair();
    const std::vector<std::byte> large = block(1 << 20, 1);
    const std::vector<std::byte> small = block(100, 2);
    Watched<SendOperation> first;
    Watched<SendOperation> second;
    Watched<SendOperation> third;
    pair.one.send(first, large);
    pair.one.send(second, small);
    run_ready();
    ASSERT_GT(first.sent, 0U);
    simulation_.faults().fail({.kind = CallKind::send}, ENOBUFS);
    const std::vector<std::byte> received = receive_what_there_is(pair.other);
    ASSERT_EQ(first.completion_count, 1U);
    EXPECT_EQ(first.error().code(), Errc::out_of_memory);
    ASSERT_EQ(second.completion_count, 1U);
    EXPECT_EQ(second.error().code(), Errc::closed);
    pair.one.send(third, small);
    run_ready();
    EXPECT_EQ(third.error().code(), Errc::closed);
    EXPECT_EQ(received.size(), first.sent);
    EXPECT_EQ(std::ranges::count(received, std::byte{2}), 0);
}

// An error after the first part would otherwise be known to nobody.
TEST_P(FaultsTest, SendFileThatFailsInTheMiddleSaysSo) {
    Pair pair = make_pair();
    const Descriptor file(simulation_.make_file(std::string(1 << 20, 'x')));
    Watched<SendFileOperation> send;
    pair.one.send_file(send, file.get(), 0, 1 << 20);
    run_ready();
    ASSERT_GT(send.sent, 0U);
    simulation_.faults().fail({.kind = CallKind::sendfile}, ENOBUFS);
    const std::vector<std::byte> received = receive_what_there_is(pair.other);
    ASSERT_EQ(send.completion_count, 1U);
    EXPECT_EQ(send.error().code(), Errc::out_of_memory);
    EXPECT_EQ(received.size(), send.sent);
}

TEST_P(FaultsTest, NothingIsSplicedBehindASendThatFailed) {
    Pair pair = make_pair();
    const auto [from, to] = simulation_.make_pipe();
    const Descriptor pipe(from);
    const Descriptor filler(to);
    const iovec part = {const_cast<char*>("behind"), 6};
    ASSERT_EQ(internal::calls().pwritev2(to, &part, 1, -1, 0), 6);
    const std::vector<std::byte> bytes = block(100, 1);
    Watched<SendOperation> send;
    simulation_.faults().fail({.kind = CallKind::send}, ENOBUFS);
    pair.one.send(send, bytes);
    run_ready();
    EXPECT_EQ(send.error().code(), Errc::out_of_memory);
    Watched<SpliceOperation> splice;
    pair.one.splice_from(splice, from, 6);
    run_ready();
    ASSERT_EQ(splice.completion_count, 1U);
    EXPECT_EQ(splice.error().code(), Errc::closed);
    EXPECT_TRUE(receive_what_there_is(pair.other).empty());
}

TEST_P(FaultsTest, WritesBehindOneThatFailedAreNotSent) {
    Pair pair = make_pair();
    ASSERT_TRUE(pair.one.write(block(1 << 20, 1)).has_value());
    ASSERT_TRUE(pair.one.write(block(100, 2)).has_value());
    run_ready();
    simulation_.faults().fail({.kind = CallKind::send}, ENOBUFS);
    const std::vector<std::byte> received = receive_what_there_is(pair.other);
    EXPECT_FALSE(pair.one.write(block(100, 3)).has_value());
    const std::vector<std::byte> bytes = block(100, 4);
    Watched<SendOperation> send;
    pair.one.send(send, bytes);
    run_ready();
    EXPECT_EQ(send.error().code(), Errc::closed);
    const std::vector<std::byte> rest = receive_what_there_is(pair.other);
    EXPECT_GT(received.size(), 0U);
    EXPECT_LT(received.size() + rest.size(), std::size_t{1} << 20);
    EXPECT_TRUE(std::ranges::all_of(received, [](std::byte b) { return b == std::byte{1}; }));
    EXPECT_TRUE(std::ranges::all_of(rest, [](std::byte b) { return b == std::byte{1}; }));
}

TEST_P(FaultsTest, ConnectionWhoseWriteFailedIsBrokenOff) {
    Listener listener = listen();
    const auto client = connect_to(listener);
    int socket = -1;
    Watched<AcceptOperation> accept;
    listener.accept(accept, std::span(&socket, 1));
    run_ready();
    Stream server = listener.take(socket).value();
    ASSERT_TRUE(client->stream.write(block(16 << 20, 1)).has_value());
    run_ready();
    simulation_.faults().fail({.kind = CallKind::send}, ENOBUFS);
    EXPECT_GT(receive_what_there_is(server).size(), 0U);
    client->stream.close();
    Watched<ReceiveLentOperation> receive;
    do {
        receive.data.give_back();
        server.receive(receive);
        run_ready();
    } while (receive.data);
    EXPECT_EQ(receive.error().code(), Errc::reset);
}

// Its linger timer starts when the loop has already ended the others.
TEST_P(FaultsTest, StreamThatBeginsToLingerWhileTheLoopEndsIsClosed) {
    std::optional<Pair> pair = make_pair();
    std::optional<Stream> writer = std::move(pair->one);
    ASSERT_TRUE(writer->write(block(1 << 20, 1)).has_value());
    Watched<ReceiveLentOperation> receive([&] { writer.reset(); });
    writer->receive(receive);
    run_ready();
    receive.cancel();
    pair.reset();
    loop_.reset();
    EXPECT_EQ(receive.completion_count, 1U);
    EXPECT_EQ(simulation_.open_descriptor_count(), 0U) << simulation_.open_descriptors();
}

INSTANTIATE_TEST_SUITE_P(Over, FaultsTest,
                         testing::Values(EngineKind::select, EngineKind::poll,
                                         EngineKind::simulated),
                         [](const testing::TestParamInfo<EngineKind>& parameter) {
                             return std::string(to_string(parameter.param));
                         });

}  // namespace
}  // namespace berth::test
