// SPDX-License-Identifier: Apache-2.0

// What goes between a stream and a file or a pipe: send_file(), splice_to(), splice_from().
//
//   file ──send_file──▶ ┌ client ┐ ══▶ ┌ server ┐ ──splice_to──▶ pipe
//   pipe ─splice_from─▶ └────────┘     └────────┘

#include "src/base/system_calls.h"
#include "src/engine/simulation/simulation.h"
#include "src/loop/loop_state.h"
#include "tests/conformance/engines.h"

#include <berth/descriptor.h>
#include <berth/scope.h>
#include <berth/task.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace berth::test {
namespace {

using namespace std::chrono_literals;
using internal::calls;
using internal::Simulation;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kMuch = 4 << 20;

class CopiesTest : public EngineTest {
protected:
    struct Pipe {
        Descriptor out;  // to read from
        Descriptor in;
    };
    template <class Begin>
    static Task<void> note_error(Begin begin, Deadline deadline, std::optional<Errc>& code) {
        const Result<std::size_t> count = co_await begin(deadline);
        code = count.error().code();
    }
    /// What `begin(deadline)` answers to be awaited cannot go on: its deadline ends it, and so does
    /// a cancellation.
    template <class Begin>
    void expect_to_end_early(Begin begin) {
        std::optional<Errc> timed_out;
        std::optional<Errc> cancelled;
        run(note_error(begin, within(1ms), timed_out));
        Scope tasks;
        tasks.spawn(note_error(begin, kNoDeadline, cancelled));
        run_ready();
        EXPECT_FALSE(cancelled.has_value());
        tasks.cancel();
        run_until([&] { return tasks.size() == 0; });
        EXPECT_EQ(timed_out, Errc::timed_out);
        EXPECT_EQ(cancelled, Errc::cancelled);
    }
    static Pipe make_pipe() {
        std::array<int, 2> ends = {-1, -1};
        if (Simulation* simulation = Simulation::active()) {
            ends = simulation->make_pipe();
        } else {
            EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
        }
        return {Descriptor(ends[0]), Descriptor(ends[1])};
    }
    static Descriptor make_file(std::span<const std::byte> contents) {
        if (Simulation* simulation = Simulation::active()) {
            return Descriptor(simulation->make_file(text_of(contents)));
        }
        Descriptor file(::memfd_create("berth-copies", MFD_CLOEXEC));
        EXPECT_EQ(::write(file.get(), contents.data(), contents.size()),
                  static_cast<ssize_t>(contents.size()));
        return file;
    }
    /// As many as the pipe has room for.
    static std::size_t write_to(const Pipe& pipe, std::span<const std::byte> bytes) {
        const iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
        const ssize_t count = calls().pwritev2(pipe.in.get(), &part, 1, -1, 0);
        return count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    static Bytes read_from(const Pipe& pipe) {
        Bytes bytes(1 << 20);
        const iovec part = {bytes.data(), bytes.size()};
        const ssize_t count = calls().preadv2(pipe.out.get(), &part, 1, -1, 0);
        bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return bytes;
    }

    static std::size_t count_of(const Result<std::size_t>& result) {
        EXPECT_TRUE(result.has_value()) << result.error().message();
        return result.value_or(~std::size_t{0});
    }

    void run(Task<void> task) {
        Scope tasks;
        tasks.spawn(std::move(task));
        run_until([&] { return tasks.size() == 0; });
    }
    /// The stream takes no more.
    static void fill(const Stream& stream) {
        Bytes block(64 * 1024);
        for (std::size_t size : {block.size(), std::size_t{1}}) {
            while (calls().send(stream.fd(), block.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
            }
        }
    }
    /// All of `source`, by way of `pipe`; counts what has gone.
    static Task<void> splice_all(Stream& stream, const Pipe& pipe, const Bytes& source,
                                 std::size_t& sent) {
        std::size_t filled = 0;
        while (sent < source.size()) {
            if (filled == sent) {
                filled += write_to(pipe, std::span(source).subspan(filled));
            }
            const auto count = co_await stream.splice_from(pipe.out.get(), filled - sent);
            if (!count) {
                ADD_FAILURE() << count.error().message();
                break;
            }
            sent += *count;
        }
    }
};

TEST_P(CopiesTest, FileGoesOutWhole) {
    auto [client, server] = connect_pair();
    const Bytes contents = pattern(kMuch);
    const Descriptor file = make_file(contents);
    Watched<SendFileOperation> send;
    EXPECT_EQ(client.send_file(send, file.get(), 0, contents.size()), Start::pending);
    run_ready();
    EXPECT_EQ(send.completion_count, 0U) << "nobody reads yet";
    EXPECT_TRUE(receive_exactly(server, contents.size()) == contents);
    run_until([&] { return send.completion_count == 1; });
    EXPECT_EQ(send.count(), contents.size()) << send.error().message();
}

TEST_P(CopiesTest, PartsOfAFileAndOtherSendsKeepTheirOrder) {
    auto [client, server] = connect_pair();
    const Bytes contents = pattern(100'000);
    const Descriptor file = make_file(contents);
    Watched<SendFileOperation> first;
    Watched<SendFileOperation> second;
    ASSERT_TRUE(client.write(bytes_of("header")).has_value());
    client.send_file(first, file.get(), 60'000, 30'000);
    ASSERT_TRUE(client.write(bytes_of("between")).has_value());
    client.send_file(second, file.get(), 10, 20'000);
    Bytes expected;
    const auto expect = [&](std::span<const std::byte> bytes) {
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    };
    expect(bytes_of("header"));
    expect(std::span(contents).subspan(60'000, 30'000));
    expect(bytes_of("between"));
    expect(std::span(contents).subspan(10, 20'000));
    EXPECT_TRUE(receive_exactly(server, expected.size()) == expected);
    run_until([&] { return first.completion_count == 1 && second.completion_count == 1; });
    EXPECT_EQ(first.count(), 30'000U);
    EXPECT_EQ(second.count(), 20'000U);
}

TEST_P(CopiesTest, FileThatEndsEarlySaysHowMuchThereWas) {
    auto [client, server] = connect_pair();
    const Descriptor file = make_file(pattern(1000));
    run([](Stream& stream, int fd) -> Task<void> {
        const auto part = co_await stream.send_file(fd, 400, 5000);
        const auto beyond = co_await stream.send_file(fd, 1000, 1);
        EXPECT_EQ(count_of(part), 600U);
        EXPECT_EQ(count_of(beyond), 0U);
    }(client, file.get()));
    ASSERT_TRUE(client.write(bytes_of("!")).has_value());
    EXPECT_EQ(receive_exactly(server, 601).back(), std::byte{'!'});
}

TEST_P(CopiesTest, FileThatIsCutOffBreaksTheStream) {
    for (const bool is_cancelled : {true, false}) {
        auto [client, server] = connect_pair();
        const Bytes contents = pattern(8 << 20);
        const Descriptor file = make_file(contents);
        Watched<SendFileOperation> send;
        client.send_file(send, file.get(), 0, contents.size(),
                         is_cancelled ? kNoDeadline : within(5ms));
        if (is_cancelled) {
            run_ready();
            send.cancel();
        }
        run_until([&] { return send.completion_count == 1; });
        EXPECT_EQ(send.error().code(), is_cancelled ? Errc::cancelled : Errc::timed_out);
        EXPECT_GT(send.sent, 0U);
        EXPECT_LT(send.sent, contents.size());
        Watched<SendOperation> next;
        client.send(next, bytes_of("a gap before it"));
        run_until([&] { return next.completion_count == 1; });
        EXPECT_EQ(next.error().code(), Errc::closed);
        client.close();
        const Everything received = receive_all(server);
        EXPECT_EQ(received.bytes.size(), send.sent);
        EXPECT_TRUE(std::equal(received.bytes.begin(), received.bytes.end(), contents.begin()));
    }
}

TEST_P(CopiesTest, StreamIsSplicedToItsEnd) {
    auto [client, server] = connect_pair();
    const Bytes sent = pattern(kMuch);
    const Pipe pipe = make_pipe();
    ASSERT_TRUE(client.write(sent).has_value());
    ASSERT_TRUE(client.shut_down_write().has_value());
    Bytes received;
    run([](Stream& stream, const Pipe& into, Bytes& bytes) -> Task<void> {
        for (std::size_t count = 1; count != 0;) {
            const auto spliced = co_await stream.splice_to(into.in.get(), 30'000);
            count = spliced.value_or(0);
            const Bytes part = read_from(into);
            EXPECT_EQ(part.size(), count_of(spliced));
            bytes.insert(bytes.end(), part.begin(), part.end());
        }
        // It stays the end.
        const auto again = co_await stream.splice_to(into.in.get(), 10);
        EXPECT_EQ(count_of(again), 0U);
    }(server, pipe, received));
    EXPECT_TRUE(received == sent);
}

TEST_P(CopiesTest, SplicedFromAPipeWhileTheReceiverIsSlow) {
    auto [client, server] = connect_pair();
    const Bytes source = pattern(2 * kMuch);
    const Pipe pipe = make_pipe();
    std::size_t sent = 0;
    Scope tasks;
    tasks.spawn(splice_all(client, pipe, source, sent));
    for (std::size_t before = ~std::size_t{0}; before != sent;) {
        before = sent;
        run_ready();
    }
    EXPECT_GT(sent, 0U);
    EXPECT_LT(sent, source.size()) << "nobody reads yet";
    EXPECT_TRUE(receive_exactly(server, source.size()) == source);
    run_until([&] { return tasks.size() == 0; });
    EXPECT_EQ(sent, source.size());
}

TEST_P(CopiesTest, EndOfThePipeIsNotTheEndOfTheStream) {
    auto [client, server] = connect_pair();
    Pipe pipe = make_pipe();
    EXPECT_EQ(write_to(pipe, bytes_of("last")), 4U);
    pipe.in.reset();
    run([](Stream& stream, int from) -> Task<void> {
        const auto last = co_await stream.splice_from(from, 100);
        const auto end = co_await stream.splice_from(from, 100);
        EXPECT_EQ(count_of(last), 4U);
        EXPECT_EQ(count_of(end), 0U);
    }(client, pipe.out.get()));
    ASSERT_TRUE(client.write(bytes_of(", and more")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 14)), "last, and more");
}

// An engine may have received more than was asked for.
TEST_P(CopiesTest, SpliceTakesWhatWasReceivedAhead) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    Watched<ReceiveLentOperation> lent;
    server.receive(lent);
    ASSERT_TRUE(client.write(bytes_of("received")).has_value());
    run_until([&] { return lent.completion_count == 1; });
    EXPECT_EQ(text_of(lent.data.bytes()), "received");
    lent.data.give_back();
    ASSERT_TRUE(client.write(bytes_of("spliced, received")).has_value());
    run_ready();
    run([](Stream& stream, int into) -> Task<void> {
        const auto first = co_await stream.splice_to(into, 4);
        const auto second = co_await stream.splice_to(into, 3);
        EXPECT_EQ(count_of(first), 4U);
        EXPECT_EQ(count_of(second), 3U);
    }(server, pipe.in.get()));
    EXPECT_EQ(text_of(read_from(pipe)), "spliced");
    EXPECT_EQ(text_of(receive_exactly(server, 10)), ", received");
}

TEST_P(CopiesTest, ReceiveAndSpliceTakeTurns) {
    auto [client, server] = connect_pair();
    const Bytes sent = pattern(300'000);
    const Pipe pipe = make_pipe();
    Bytes received;
    Scope tasks;
    tasks.spawn([](Stream& stream, const Pipe& into, Bytes& bytes) -> Task<void> {
        bool is_over = false;
        while (!is_over) {
            const Lent lent = co_await stream.receive();
            bytes.insert(bytes.end(), lent.bytes().begin(), lent.bytes().end());
            const auto spliced = co_await stream.splice_to(into.in.get(), 1000);
            const Bytes part = read_from(into);
            EXPECT_EQ(part.size(), count_of(spliced));
            bytes.insert(bytes.end(), part.begin(), part.end());
            is_over = part.empty();
        }
    }(server, pipe, received));
    run_ready();
    ASSERT_TRUE(client.write(sent).has_value());
    ASSERT_TRUE(client.shut_down_write().has_value());
    run_until([&] { return tasks.size() == 0; });
    EXPECT_TRUE(received == sent) << received.size() << " bytes";
}

TEST_P(CopiesTest, SpliceThatEndsEarlyHasTakenNothing) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    expect_to_end_early(
        [&](Deadline deadline) { return server.splice_to(pipe.in.get(), 10, deadline); });
    ASSERT_TRUE(client.write(bytes_of("all there")).has_value());
    EXPECT_EQ(text_of(receive_exactly(server, 9)), "all there");
    EXPECT_TRUE(read_from(pipe).empty());
}

TEST_P(CopiesTest, SpliceIntoAFullStreamEndsEarly) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    EXPECT_EQ(write_to(pipe, bytes_of("stays")), 5U);
    fill(client);
    expect_to_end_early(
        [&](Deadline deadline) { return client.splice_from(pipe.out.get(), 5, deadline); });
    EXPECT_EQ(text_of(read_from(pipe)), "stays");
}

TEST_P(CopiesTest, OneOperationSplicesBothWays) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    ASSERT_TRUE(client.write(bytes_of("there and back")).has_value());
    const Descriptor socket = server.release();
    internal::LoopState& state = loop().state();
    const internal::SlotHandle slot =
        state.attach(socket.get(), internal::DescriptorKind::stream).value();
    Watched<SpliceOperation> splice;
    splice.pipe = pipe.in.get();
    splice.size = 100;
    EXPECT_EQ(internal::submit(&state, splice, slot, kNoDeadline), Start::pending);
    run_until([&] { return splice.completion_count == 1; });
    EXPECT_EQ(splice.count(), 14U) << splice.error().message();
    splice.pipe = pipe.out.get();
    splice.into_socket = true;
    EXPECT_EQ(internal::submit(&state, splice, slot, kNoDeadline), Start::pending);
    run_until([&] { return splice.completion_count == 2; });
    EXPECT_EQ(splice.count(), 14U) << splice.error().message();
    EXPECT_EQ(text_of(receive_exactly(client, 14)), "there and back");
    state.detach(slot, internal::Detach::keep);
}

TEST_P(CopiesTest, SpliceWaitsForRoomInThePipe) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    while (write_to(pipe, Bytes(4096)) > 0) {
    }
    ASSERT_TRUE(client.write(bytes_of("waits for room")).has_value());
    run_ready();
    std::size_t count = 0;
    Scope tasks;
    tasks.spawn([](Stream& stream, int into, std::size_t& spliced) -> Task<void> {
        spliced = (co_await stream.splice_to(into, 100)).value_or(0);
    }(server, pipe.in.get(), count));
    run_ready();
    EXPECT_EQ(count, 0U);
    while (!read_from(pipe).empty()) {
    }
    run_until([&] { return tasks.size() == 0; });
    EXPECT_EQ(count, 14U);
    EXPECT_EQ(text_of(read_from(pipe)), "waits for room");
}

TEST_P(CopiesTest, SpliceWaitsForBytesInThePipe) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    std::size_t count = 0;
    Scope tasks;
    tasks.spawn([](Stream& stream, int from, std::size_t& spliced) -> Task<void> {
        spliced = (co_await stream.splice_from(from, 100)).value_or(0);
    }(client, pipe.out.get(), count));
    run_ready();
    EXPECT_EQ(count, 0U);
    EXPECT_EQ(write_to(pipe, bytes_of("late")), 4U);
    run_until([&] { return tasks.size() == 0; });
    EXPECT_EQ(count, 4U);
    EXPECT_EQ(text_of(receive_exactly(server, 4)), "late");
}

TEST_P(CopiesTest, SpliceIntoAFullPipeDoesNotSpin) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    while (write_to(pipe, Bytes(4096)) > 0) {
    }
    ASSERT_TRUE(client.write(bytes_of("waits for room")).has_value());
    run_ready();
    Scope tasks;
    tasks.spawn([](Stream& stream, int into) -> Task<void> {
        static_cast<void>(co_await stream.splice_to(into, 100));
    }(server, pipe.in.get()));
    run_ready();
    const std::uint64_t before = loop().statistics().wait_count;
    ASSERT_TRUE(loop().run_until(within(20ms)).has_value());
    EXPECT_LT(loop().statistics().wait_count - before, 10U);
    tasks.cancel();
    run_until([&] { return tasks.size() == 0; });
}

TEST_P(CopiesTest, SpliceThatWaitsForItsPipeEnds) {
    auto [client, server] = connect_pair();
    const Pipe pipe = make_pipe();
    Watched<SpliceOperation> splice;
    Watched<SendOperation> behind;
    for (const bool is_closed : {false, true}) {
        client.splice_from(splice, pipe.out.get(), 100);
        client.send(behind, bytes_of("behind"));
        run_ready();
        EXPECT_TRUE(splice.is_pending());
        EXPECT_TRUE(behind.is_pending()) << "in the order submitted";
        if (is_closed) {
            client.close();
        } else {
            splice.cancel();
        }
        run_until([&] { return !splice.is_pending() && !behind.is_pending(); });
        EXPECT_EQ(splice.error().code(), Errc::cancelled);
        EXPECT_EQ(behind.has_failed(), is_closed);
    }
    EXPECT_EQ(text_of(receive_exactly(server, 6)), "behind");
    EXPECT_EQ(loop().statistics().pending_count, 0U);
}

// Another pipe of the same number, before the loop has waited again.
TEST_P(CopiesTest, SpliceOfTheNextPipeOfItsNumberWaitsToo) {
    auto [client, server] = connect_pair();
    std::optional<Pipe> pipe = make_pipe();
    Watched<SpliceOperation> splice;
    splice.then = [&] {
        if (splice.completion_count == 1) {
            pipe.reset();
            pipe = make_pipe();
            client.splice_from(splice, pipe->out.get(), 100);
        }
    };
    client.splice_from(splice, pipe->out.get(), 100);
    run_ready();
    EXPECT_EQ(write_to(*pipe, bytes_of("first")), 5U);
    run_until([&] { return splice.completion_count == 1; });
    run_ready();
    EXPECT_EQ(write_to(*pipe, bytes_of("second")), 6U);
    run_until([&] { return splice.completion_count == 2; });
    EXPECT_EQ(text_of(receive_exactly(server, 11)), "firstsecond");
}

BERTH_OVER_EVERY_ENGINE_OF(CopiesTest);

}  // namespace
}  // namespace berth::test
