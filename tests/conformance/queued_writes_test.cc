// SPDX-License-Identifier: Apache-2.0

// Writes that the stream queues: watermarks, and what becomes of them when the stream is closed.

#include "src/base/system_calls.h"
#include "tests/conformance/engines.h"

#include <sys/socket.h>

namespace berth::test {
namespace {

using namespace std::chrono_literals;

class QueuedWritesTest : public EngineTest {
protected:
    /// A stream with bytes that wait for its peer to read, and the peer, which is not on the loop:
    /// nothing that it does wakes the loop but the room it makes.
    struct Blocked {
        Stream stream;
        Descriptor peer;
        std::size_t size = 0;  // bytes written so far
    };
    Blocked connect_blocked();
    /// Takes what has come; answers how many bytes that were, and sees the end of the stream.
    static std::size_t drain(const Descriptor& peer, bool& has_ended);
};

QueuedWritesTest::Blocked QueuedWritesTest::connect_blocked() {
    Pair pair = connect_pair();
    Blocked blocked{std::move(pair.client), pair.server.release()};
    const std::vector<std::byte> block = pattern(16 * 1024);
    while (blocked.stream.queued_size() == 0) {
        EXPECT_TRUE(blocked.stream.write(block).has_value());
        blocked.size += block.size();
        run_ready();
    }
    return blocked;
}

std::size_t QueuedWritesTest::drain(const Descriptor& peer, bool& has_ended) {
    std::vector<std::byte> buffer(64 * 1024);
    std::size_t size = 0;
    for (;;) {
        const ssize_t count =
            internal::calls().recv(peer.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        has_ended = count == 0;
        if (count <= 0) {
            return size;
        }
        size += static_cast<std::size_t>(count);
    }
}

TEST_P(QueuedWritesTest, QueueAboveTheHighWatermarkIsCongestedUntilTheLowOne) {
    auto [writer, reader] = connect_pair();
    const std::vector<std::byte> block = pattern(100'000);
    ASSERT_TRUE(writer.set_watermarks({.low = 100'000, .high = 400'000}).has_value());
    std::size_t written = 0;
    while (!writer.is_congested()) {
        ASSERT_TRUE(writer.write(block).has_value());
        written += block.size();
        run_ready();
        ASSERT_LT(written, std::size_t{1} << 30);
    }
    EXPECT_GT(writer.queued_size(), 400'000U);
    Watched<WaitOperation> room;
    writer.wait_for_room(room);
    run_ready();
    EXPECT_EQ(room.completion_count, 0U);
    EXPECT_EQ(receive_exactly(reader, written).size(), written);
    run_until([&] { return room.completion_count == 1; });
    EXPECT_FALSE(room.has_failed());
    EXPECT_LE(writer.queued_size(), 100'000U);
    EXPECT_FALSE(writer.is_congested());
}

TEST_P(QueuedWritesTest, WhoWaitsForRoomLearnsOfAReset) {
    auto [client, server] = connect_pair();
    const std::vector<std::byte> block = pattern(1 << 20);
    while (!client.is_congested()) {
        ASSERT_TRUE(client.write(block).has_value());
        run_ready();
    }
    Watched<WaitOperation> room;
    client.wait_for_room(room);
    server.reset();
    run_until([&] { return room.completion_count == 1; });
    EXPECT_TRUE(room.has_failed());
    EXPECT_FALSE(client.write(block).has_value());
}

TEST_P(QueuedWritesTest, CloseSendsWhatIsQueued) {
    auto [client, server] = connect_pair();
    const std::vector<std::byte> sent = pattern(16 << 20);
    ASSERT_TRUE(client.write(sent).has_value());
    client.close();
    const Everything received = receive_all(server);
    EXPECT_EQ(received.system_errno, 0);
    EXPECT_TRUE(received.bytes == sent);
}

TEST_P(QueuedWritesTest, LoopRunsUntilWhatIsQueuedIsSent) {
    auto [client, server] = connect_pair();
    ASSERT_TRUE(client.write(bytes_of("goodbye")).has_value());
    client.close();
    ASSERT_TRUE(loop().run().has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 7)), "goodbye");
}

// A short write behind a long one that had to wait: the last that happens on the loop.
TEST_P(QueuedWritesTest, CloseEndsWhenWhatWaitedBehindALongWriteIsSent) {
    Blocked blocked = connect_blocked();
    ASSERT_TRUE(blocked.stream.write(bytes_of("goodbye")).has_value());
    ASSERT_TRUE(blocked.stream.set_linger(1h).has_value());
    Watched<CloseOperation> close;
    blocked.stream.close(close);
    run_ready();
    EXPECT_EQ(close.completion_count, 0U);
    bool has_ended = false;
    std::size_t received = drain(blocked.peer, has_ended);
    run_until([&] {
        received += drain(blocked.peer, has_ended);
        return close.completion_count == 1 && has_ended;
    });
    EXPECT_EQ(received, blocked.size + 7);
    EXPECT_TRUE(has_ended);
}

TEST_P(QueuedWritesTest, HalfCloseFollowsWhatWaitedBehindALongWrite) {
    Blocked blocked = connect_blocked();
    Watched<ReceiveLentOperation> receive;  // keeps the loop alive
    blocked.stream.receive(receive);
    ASSERT_TRUE(blocked.stream.write(bytes_of("goodbye")).has_value());
    ASSERT_TRUE(blocked.stream.shut_down_write().has_value());
    run_ready();
    bool has_ended = false;
    std::size_t received = drain(blocked.peer, has_ended);
    run_until([&] {
        received += drain(blocked.peer, has_ended);
        return blocked.stream.queued_size() == 0 && has_ended;
    });
    EXPECT_EQ(received, blocked.size + 7);
    EXPECT_TRUE(has_ended);
    blocked.stream.close();
    run_until([&] { return receive.completion_count == 1; });
}

TEST_P(QueuedWritesTest, LoopRunsUntilWhatWaitedBehindALongWriteIsSent) {
    Blocked blocked = connect_blocked();
    ASSERT_TRUE(blocked.stream.write(bytes_of("goodbye")).has_value());
    run_ready();
    bool has_ended = false;
    drain(blocked.peer, has_ended);
    run_until([&] { return blocked.stream.queued_size() == 0; });
    ASSERT_TRUE(loop().run().has_value());
}

TEST_P(QueuedWritesTest, ThereIsRoomAgainWhenAShortWriteIsSent) {
    auto [client, server] = connect_pair();
    const Descriptor peer = server.release();
    ASSERT_TRUE(client.set_watermarks({.low = 0, .high = 0}).has_value());
    ASSERT_TRUE(client.write(bytes_of("short")).has_value());
    Watched<WaitOperation> room;
    client.wait_for_room(room);
    run_until([&] { return room.completion_count == 1 || !client.is_congested(); });
}

TEST_P(QueuedWritesTest, LingeringEnds) {
    auto [client, server] = connect_pair();
    const std::uint32_t before = loop().statistics().socket_count;
    const std::vector<std::byte> large = pattern(16 << 20);
    ASSERT_TRUE(client.set_linger(30ms).has_value());
    ASSERT_TRUE(client.write(large).has_value());
    run_ready();
    const TimePoint closed = loop().now();
    client.close();
    run_ready();
    const std::uint32_t left = loop().statistics().socket_count;
    EXPECT_TRUE(left == before || loop().now() - closed >= 30ms) << left;
    run_until([&] { return loop().statistics().socket_count == before - 1; });
    run_ready();
    EXPECT_EQ(loop().statistics().pending_count, 0U);
    // What is missing must not look like the end of the stream.
    bool has_ended = false;
    Watched<ReceiveLentOperation> receive;
    receive.then = [&] {
        has_ended = !receive.data;
        receive.data.give_back();
        if (!has_ended) server.receive(receive);
    };
    server.receive(receive);
    run_until([&] { return has_ended; });
    EXPECT_EQ(receive.error().code(), Errc::reset);
}

// The receive is about to be tried when a completion before it takes what there was, and closes.
TEST_P(QueuedWritesTest, LingeringEndsAReceiveThatIsAboutToBeTried) {
    // In which order they complete is the engine's affair: one of the two is before the receive.
    Pair before = connect_pair();
    Blocked blocked;
    const auto close = [&] {
        if (blocked.stream.is_open()) {
            std::byte byte{};
            EXPECT_EQ(internal::calls().recv(blocked.stream.fd(), &byte, 1, MSG_DONTWAIT), 1);
            blocked.stream.close();
        }
    };
    Watched<ReceiveLentOperation> first(close);
    Watched<ReceiveLentOperation> receive;
    Watched<ReceiveLentOperation> last(close);
    before.server.receive(first);
    run_ready();
    blocked = connect_blocked();
    ASSERT_TRUE(blocked.stream.set_linger(1h).has_value());
    Pair after = connect_pair();
    blocked.stream.receive(receive);
    after.server.receive(last);
    run_ready();
    for (const int peer : {before.client.fd(), blocked.peer.get(), after.client.fd()}) {
        ASSERT_EQ(internal::calls().send(peer, "x", 1, MSG_DONTWAIT), 1);
    }
    run_until([&] { return first.completion_count == 1 && last.completion_count == 1; });
    run_ready();
    ASSERT_EQ(receive.completion_count, 1U);
    EXPECT_EQ(receive.data.error().code(), Errc::cancelled);
    const std::uint32_t lingering_count = loop().statistics().socket_count;
    blocked.peer = Descriptor();
    run_until([&] { return loop().statistics().socket_count == lingering_count - 1; });
}

BERTH_OVER_EVERY_ENGINE_OF(QueuedWritesTest);

}  // namespace
}  // namespace berth::test
