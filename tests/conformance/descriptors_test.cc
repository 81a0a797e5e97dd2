// SPDX-License-Identifier: Apache-2.0

// What becomes of a stream's descriptor: given back to the caller, closed by somebody else, gone on
// the other side.

#include "src/base/system_calls.h"
#include "tests/conformance/engines.h"
#include "tests/support/send_descriptor.h"

#include <berth/file.h>

#include <sys/socket.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace berth::test {
namespace {

class DescriptorTest : public EngineTest {
protected:
    /// What a plain reader finds in a socket.
    static std::string read_what_there_is(const Descriptor& socket) {
        std::string text;
        char byte = 0;
        while (internal::calls().recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 1) {
            text += byte;
        }
        return text;
    }
};

TEST_P(DescriptorTest, ReleaseGivesWhatWasReceivedInAdvance) {
    auto [client, server] = connect_pair();
    // Short pieces: io_uring then receives before it is asked.
    for (int i = 0; i < 8; ++i) {
        Watched<ReceiveLentOperation> receive;
        server.receive(receive);
        ASSERT_TRUE(client.write(bytes_of("a little ")).has_value());
        run_until([&] { return receive.completion_count == 1; });
        receive.data.give_back();
    }
    ASSERT_TRUE(client.write(bytes_of("in advance, ")).has_value());
    run_ready();
    run_ready();
    ASSERT_TRUE(client.write(bytes_of("and the rest")).has_value());
    run_ready();
    std::vector<std::byte> unread;
    const Descriptor socket = server.release(unread);
    EXPECT_EQ(text_of(unread) + read_what_there_is(socket), "in advance, and the rest");
    EXPECT_FALSE(server.is_open());
    ASSERT_TRUE(client.write(bytes_of("later")).has_value());
    run_ready();
    EXPECT_EQ(read_what_there_is(socket), "later");
}

TEST_P(DescriptorTest, ReleaseCancelsAReceiveThatWaits) {
    auto [client, server] = connect_pair();
    Watched<ReceiveLentOperation> receive;
    server.receive(receive);
    run_ready();
    std::vector<std::byte> unread;
    const Descriptor socket = server.release(unread);
    EXPECT_EQ(receive.completion_count, 0U) << "never inside the call";
    run_until([&] { return receive.completion_count == 1; });
    EXPECT_EQ(receive.data.error().code(), Errc::cancelled);
    EXPECT_TRUE(unread.empty());
    ASSERT_TRUE(client.write(bytes_of("mine")).has_value());
    run_ready();
    EXPECT_EQ(read_what_there_is(socket), "mine");
}

TEST_P(DescriptorTest, ClosedBySomebodyElseIsAnError) {
    auto [client, server] = connect_pair();
    ASSERT_EQ(internal::calls().close(server.fd()), 0);
    Watched<ReceiveLentOperation> receive;
    Watched<SendOperation> send;
    Watched<CloseOperation> close;
    server.receive(receive);
    server.send(send, bytes_of("x"));
    run_until([&] { return receive.completion_count == 1 && send.completion_count == 1; });
    EXPECT_EQ(receive.data.error().code(), Errc::invalid_argument);
    EXPECT_EQ(send.error().code(), Errc::invalid_argument);
    EXPECT_EQ(server.close(close), Start::pending);
    run_until([&] { return close.completion_count == 1; });
    EXPECT_EQ(close.error().code(), Errc::invalid_argument);
    EXPECT_THAT(close.error().message(), testing::HasSubstr("close"));
}

TEST_P(DescriptorTest, StreamThatWasNeverOpenSaysSoAtOnce) {
    Stream stream;
    Watched<CloseOperation> close;
    Watched<ReceiveLentOperation> receive;
    EXPECT_EQ(stream.receive(receive), Start::done);
    EXPECT_EQ(receive.error().code(), Errc::invalid_argument);
    EXPECT_EQ(stream.close(close), Start::done);
    EXPECT_FALSE(close.has_failed());
}

TEST_P(DescriptorTest, ConnectingTwiceIsAnErrorThatCompletes) {
    auto [client, server] = connect_pair();
    Watched<ConnectOperation> connect;
    EXPECT_EQ(client.connect(connect), Start::pending);
    run_until([&] { return connect.completion_count == 1; });
    EXPECT_EQ(connect.system_errno(), EISCONN);
    client.close();
    EXPECT_EQ(client.connect(connect), Start::pending);
    run_until([&] { return connect.completion_count == 2; });
    EXPECT_EQ(connect.error().code(), Errc::invalid_argument);
}

// A peer that is gone must not end the process.
class NoSignalTest : public DescriptorTest {
protected:
    void SetUp() override {
        need_kernel("a simulated kernel sends no signals");
        if (!IsSkipped()) DescriptorTest::SetUp();
        ASSERT_NE(::signal(SIGPIPE, SIG_DFL), SIG_ERR);
    }
    /// Two connected streams of which the far one is gone, and has said so.
    Stream connect_to_nobody() {
        Pair pair = connect_pair();
        pair.server.reset();
        run_ready();
        EXPECT_EQ(::send(pair.client.fd(), "x", 1, MSG_NOSIGNAL), -1);
        return std::move(pair.client);
    }
    static bool is_signal_blocked() {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        return sigismember(&mask, SIGPIPE) == 1;
    }
};

TEST_P(NoSignalTest, SendFileToNobody) {
    Stream stream = connect_to_nobody();
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::tmpfile(), &std::fclose);
    ASSERT_EQ(::ftruncate(::fileno(file.get()), 1 << 20), 0);
    Watched<SendFileOperation> send;
    stream.send_file(send, ::fileno(file.get()), 0, 1 << 20);
    run_until([&] { return send.completion_count == 1; });
    EXPECT_EQ(send.error().code(), Errc::closed);
    EXPECT_FALSE(is_signal_blocked());
}

// The first part is taken, and brings the reset: the kernel raises the signal and tells of the
// part.
TEST_P(NoSignalTest, SendFileAndSpliceToOneWhoHasJustGone) {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::tmpfile(), &std::fclose);
    ASSERT_EQ(::ftruncate(::fileno(file.get()), 1 << 20), 0);
    Pair pair = connect_pair();
    pair.server.close();
    run_ready();
    Watched<SendFileOperation> send;
    pair.client.send_file(send, ::fileno(file.get()), 0, 1 << 20);
    run_until([&] { return send.completion_count == 1; });
    EXPECT_TRUE(send.has_failed());
    pair = connect_pair();
    pair.server.close();
    run_ready();
    Result<Pipe> pipe = make_pipe();
    const std::vector<std::byte> bytes = pattern(60'000);
    ASSERT_EQ(::write(pipe->write_end.get(), bytes.data(), bytes.size()), 60'000);
    Watched<SpliceOperation> splice;
    pair.client.splice_from(splice, pipe->read_end.get(), bytes.size());
    run_until([&] { return splice.completion_count == 1; });
    EXPECT_FALSE(is_signal_blocked());
}

TEST_P(NoSignalTest, SpliceToNobody) {
    Stream stream = connect_to_nobody();
    Result<Pipe> pipe = make_pipe();
    ASSERT_EQ(::write(pipe->write_end.get(), "x", 1), 1);
    Watched<SpliceOperation> splice;
    stream.splice_from(splice, pipe->read_end.get(), 1);
    run_until([&] { return splice.completion_count == 1; });
    EXPECT_EQ(splice.error().code(), Errc::closed);
}

TEST_P(NoSignalTest, SpliceIntoAPipeThatNobodyReads) {
    auto [client, server] = connect_pair();
    Result<Pipe> pipe = make_pipe();
    pipe->read_end = Descriptor();
    Watched<SpliceOperation> splice;
    ASSERT_TRUE(client.write(bytes_of("for nobody")).has_value());
    server.splice_to(splice, pipe->write_end.get(), 100);
    run_until([&] { return splice.completion_count == 1; });
    EXPECT_EQ(splice.error().code(), Errc::closed);
}

// Before an urgent byte a receive pauses, although there is more.
TEST_P(NoSignalTest, UrgentByteHoldsNothingBack) {
    auto [client, server] = connect_pair();
    ASSERT_EQ(::send(client.fd(), "abc", 3, 0), 3);
    ASSERT_EQ(::send(client.fd(), "!", 1, MSG_OOB), 1);
    ASSERT_EQ(::send(client.fd(), "efg", 3, 0), 3);
    EXPECT_EQ(text_of(receive_exactly(server, 6)), "abcefg");
}

// A receive ends behind descriptors, although there is more.
TEST_P(NoSignalTest, DescriptorsHoldNothingBack) {
    auto [client, server] = connect_pair_at(unix_name());
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const Descriptor far(ends[1]);
    Stream adopted = Stream::adopt(loop(), Descriptor(ends[0])).value();
    for (const auto& [from, to] : {std::pair(client.fd(), &server), std::pair(server.fd(), &client),
                                   std::pair(far.get(), &adopted)}) {
        send_descriptor(from, "abc", from);
        send_descriptor(from, "def", from);
        ASSERT_EQ(::send(from, "ghi", 3, 0), 3);
        EXPECT_EQ(text_of(receive_exactly(*to, 9)), "abcdefghi");
    }
}

BERTH_OVER_EVERY_ENGINE_OF(DescriptorTest);
BERTH_OVER_EVERY_ENGINE_OF(NoSignalTest);

}  // namespace
}  // namespace berth::test
